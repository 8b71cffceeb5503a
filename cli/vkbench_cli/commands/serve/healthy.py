"""`vkbench healthy`: whether a service of this machine goes on, as an exit code."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from typer import Argument, Option

from vkbench.errors import EXIT_OK, ServiceUnreachable
from vkbench.process import alive
from vkbench.settings import settings
from vkbench.words.units import span
from vkbench_cli.show.telling import say

PAGES = "http://127.0.0.1:8900"
ANSWER_SECONDS = 5.0


class Service(StrEnum):
    """What can be asked about."""

    SCHEDULER = "scheduler"
    WORKER = "worker"
    WEB = "web"


def healthy(
    *,
    service: Annotated[Service, Argument(help="The service to check.")],
    within: Annotated[
        float,
        Option(metavar="SECONDS", min=0.1, help="A thread that is silent for longer is stuck."),
    ] = 300.0,
    url: Annotated[str, Option(metavar="URL", help="Where the pages are, for `web`.")] = PAGES,
) -> int:
    """Check whether a service of this machine goes on.

    Each of the scheduler's threads leaves a sign of life in VKBENCH_DATA after each turn, and each
    device's worker whenever its lease was renewed in Redis. The pages are asked over HTTP, and
    answer once they have read the database.

    \b
    vkbench healthy scheduler --within 60

    Exit codes: 0 it goes on, 8 it does not run or a part of it is stuck.
    """
    trouble = _pages(url) if service is Service.WEB else _signs(service, within)
    say(f"{service}: {trouble or 'well'}")
    return ServiceUnreachable.exit_code if trouble else EXIT_OK


def _signs(service: str, within: float) -> str:
    ages = alive.ages(settings().data, service)
    if not ages:
        return "it does not run here"
    stuck = {part: age for part, age in ages.items() if age > within}
    return ", ".join(f"{part} silent for {span(age)}" for part, age in stuck.items())


def _pages(url: str) -> str:
    try:
        with urlopen(f"{url.rstrip('/')}/api/health", timeout=ANSWER_SECONDS):
            return ""
    except HTTPError as error:
        return f"{url} answers {error.code}"
    except (URLError, OSError, ValueError) as error:
        return f"{url} does not answer: {getattr(error, 'reason', error)}"
