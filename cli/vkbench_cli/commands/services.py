"""`vkbench worker` and `vkbench scheduler`: the services, which run until they are told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Annotated

from typer import Option

from vkbench import log
from vkbench.errors import ServiceUnreachable, UsageError
from vkbench.settings import Settings, settings
from vkbench_cli.options import Devices, Store

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0  # for what a service needs at its start; it waits out all that fails later

Wait = Annotated[
    float,
    Option(min=0.0, metavar="SECONDS", help="Give up if what is needed does not answer so long."),
]


def worker(*, device: Devices = [], wait: Wait = PATIENCE_SECONDS) -> int:  # noqa: B006
    """Serve one device of this host until stopped.

    With several devices, or no --device, which is all of this host, each gets a process of its own.
    Takes jobs from Redis (VKBENCH_REDIS) and needs no database. SIGTERM or Ctrl-C ends it after the
    current job.
    """
    from vkbench_cli.machine import chosen_devices
    from vkbench_worker.service import serve

    log.set_up()
    patiently(lambda: _ping(settings()), wait)
    keys = [facts.key for facts in chosen_devices(device, settings())] if device else []
    return serve(keys, settings())


def scheduler(*, store: Store, wait: Wait = PATIENCE_SECONDS) -> int:
    """Send jobs to workers and store their results until stopped.

    Needs Redis (VKBENCH_REDIS) and the database.
    """
    from vkbench_cli.store import opened
    from vkbench_scheduler.service import serve

    log.set_up()
    ours = store.settings()
    patiently(lambda: _ping(ours), wait)
    patiently(lambda: opened(ours).close(), wait)
    return serve(ours)


def patiently(look: Callable[[], None], seconds: float) -> None:
    """Look until the service answers; its ServiceUnreachable when it has not in time."""
    end = time.monotonic() + seconds
    said = False
    while True:
        try:
            return look()
        except ServiceUnreachable as error:
            if time.monotonic() >= end:
                raise
            if not said:
                log.warn(_log, "service_awaited", seconds=seconds, error=error)
                said = True
        time.sleep(0.5)


def _ping(ours: Settings) -> None:
    from vkbench_scheduler.connection import connect, reached

    try:
        redis = connect(ours.redis)
    except ValueError as error:
        raise UsageError(f"malformed Redis URL '{ours.redis}': {error}") from error
    with redis, reached():
        redis.ping()
