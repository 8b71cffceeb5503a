"""Issues of forges: which one a regression has, a row each."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from vkbench_db import schema
from vkbench_db.rows import fetch, insert_missing, select_record


@dataclass(frozen=True, kw_only=True)
class KeptIssue:
    """The issue of a regression on one forge."""

    regression: int
    channel: str
    number: int
    link: str


def keep_issue(tx: Connection, issue: KeptIssue) -> None:
    """Store which issue a regression has; the first one stays."""
    row = {
        "regression_id": issue.regression,
        "channel": issue.channel,
        "number": issue.number,
        "link": issue.link,
    }
    insert_missing(tx, schema.forge_issue, [row])


def issue_of(tx: Connection, regression: int, channel: str) -> KeptIssue | None:
    """The issue of a regression, if one was opened through this channel."""
    issue = schema.forge_issue
    query = select_record(KeptIssue, issue, regression=issue.c.regression_id).where(
        issue.c.regression_id == regression, issue.c.channel == channel
    )
    return next(iter(fetch(tx, query, KeptIssue)), None)
