"""Regressions as issues of GitHub or GitLab: opened with them, closed when they are fixed.

It is a channel of alerts: their deliveries say what was told. A message makes the issue what the
regression is now, so messages may come late, twice or in another order. An issue is found by its
hidden marker where the process that opened it died before it noted the number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from vkbench.errors import UsageError
from vkbench.forges.forge import Forge, ForgeError
from vkbench.forges.opening import ForgeKind, open_forge
from vkbench.settings import Settings
from vkbench.words import markdown
from vkbench_db.database import Database
from vkbench_db.upkeep.issues import KeptIssue, issue_of, keep_issue
from vkbench_detection.regress.news import RegressionNews
from vkbench_detection.regress.stages import UNSETTLED, RegressionStage
from vkbench_scheduler.errors import AlertFailed
from vkbench_scheduler.watch.messages import Message


def channels_of(
    database: Database, settings: Settings
) -> dict[str, Callable[[Message, float], None]]:
    """The channel of VKBENCH_ISSUES, by a name that is another one for another place."""
    if not settings.issues:
        return {}
    place = f"{settings.issues} {settings.issues_url}"
    name = f"issues-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
    return {name: partial(_send, database, settings, name)}


def _send(
    database: Database, settings: Settings, channel: str, message: Message, now: float
) -> None:
    """Bring the issue of a regression to where the regression is; AlertFailed if it cannot be."""
    if message.news is None:
        return
    try:
        _settle(database, _open(settings), channel, message, message.news)
    except (ForgeError, UsageError) as error:
        raise AlertFailed(str(error)) from error


def _open(settings: Settings) -> Forge:
    kind, _, repository = settings.issues.partition(":")
    if kind not in tuple(ForgeKind):
        raise UsageError("VKBENCH_ISSUES is neither github:OWNER/NAME nor gitlab:GROUP/NAME")
    return open_forge(
        ForgeKind(kind),
        repository,
        token=settings.issues_token,
        url=settings.issues_url,
        tries=1,  # alerts have tries of their own
    )


def _settle(
    database: Database, forge: Forge, channel: str, message: Message, news: RegressionNews
) -> None:
    is_open = news.state in UNSETTLED
    with database.reading() as tx:
        kept = issue_of(tx, news.id, channel)
    if kept is None:
        kept = _find_or_open(forge, channel, message, news, is_open=is_open)
        if kept is None:
            return  # it was fixed before anybody heard of it
        with database.transaction() as tx:
            keep_issue(tx, kept)
    if str(message.body["type"]) != f"regression.{RegressionStage.OPEN}":
        forge.note_issue(kept.number, message.id, message.text)
    forge.move_issue(kept.number, is_open=is_open)


def _find_or_open(
    forge: Forge, channel: str, message: Message, news: RegressionNews, *, is_open: bool
) -> KeptIssue | None:
    """The issue that an earlier try opened, or a new one; None if none is needed any more."""
    born = hashlib.sha256(f"{channel} {news.id} {news.opened_at}".encode()).hexdigest()[:16]
    marker = f"regression {born}"
    issue = forge.find_issue(marker)
    if issue is None and is_open:
        title = markdown.escape_text(f"vkbench: {news.title}").replace("\\", "")
        issue = forge.open_issue(title, marker, message.text)
    if issue is None:
        return None
    return KeptIssue(regression=news.id, channel=channel, number=issue.number, link=issue.link)
