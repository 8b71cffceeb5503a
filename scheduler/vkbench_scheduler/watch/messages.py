"""What alerts say: of one regression, or a digest of many that came up at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from vkbench_detection.regress.announcements import Announcement
from vkbench_detection.regress.news import RegressionNews
from vkbench_detection.regress.stages import AGAIN, GROWN, RegressionStage
from vkbench_scheduler.watch import summaries

MOST_CHANGES = 50  # told in a message; the count says of how many
MOST_TOLD = 200  # regressions that the body of a digest has; the count says of how many

_BECAME = {  # in the order of a digest: the gravest first
    AGAIN: "is back",
    RegressionStage.OPEN: "became open",
    GROWN: "has grown",
    RegressionStage.FIXED: "became fixed",
    RegressionStage.VERIFIED: "became verified",
}


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is said through a channel at once."""

    id: str  # the same in every try and channel: who heard it before can tell
    title: str
    text: str  # Markdown
    body: Mapping[str, Any]  # for programs


@dataclass(frozen=True, kw_only=True)
class Told:
    """A regression, and what is told of it: the newest last."""

    news: RegressionNews
    announcements: Sequence[Announcement]

    @property
    def kind(self) -> str:
        """What the newest is."""
        return self.announcements[-1].kind

    @property
    def notes(self) -> str:
        """What happened, each thing once."""
        return "; ".join(dict.fromkeys(each.note for each in self.announcements if each.note))

    @property
    def identity(self) -> str:
        """What tells this from all else that is told."""
        names = ",".join(each.name for each in self.announcements)
        news = self.news  # not its title, which changes as devices join
        return f"{news.id} {news.opened_at} {news.direction} {news.cause} {names}"


def message_of(told: Told) -> Message:
    """The message about one regression."""
    news = replace(told.news, note=told.notes or told.news.note)
    summary = summaries.of_regression(news)
    shown = [asdict(change) for change in news.changes[:MOST_CHANGES]]
    return Message(
        id=_id(told.identity),
        title=f"vkbench: regression {news.id} {_BECAME[told.kind]}: {news.title}",
        text=summary,
        body={
            "type": f"regression.{told.kind}",
            "timestamp": _moment(news.changed_at),
            "data": asdict(news)
            | {"changes": shown, "change_count": len(news.changes), "summary": summary},
        },
    )


def digest_of(all_told: Sequence[Told]) -> Message:
    """One message about many regressions."""
    order = list(_BECAME)
    sorted_told = sorted(all_told, key=lambda told: (order.index(told.kind), told.news.id))
    counts = {kind: sum(told.kind == kind for told in sorted_told) for kind in order}
    said = ", ".join(f"{count} {_BECAME[kind]}" for kind, count in counts.items() if count)
    title = f"{len(sorted_told)} regressions: {said}"
    rows = [(told.news, _BECAME[told.kind], told.notes) for told in sorted_told]
    summary = summaries.of_many(title, rows)
    return Message(
        id=_id("\n".join(sorted(told.identity for told in sorted_told))),
        title=f"vkbench: {title}",
        text=summary,
        body={
            "type": "regressions.digest",
            "timestamp": _moment(max(told.news.changed_at for told in sorted_told)),
            "data": {
                "regressions": [_regression_data(told) for told in sorted_told[:MOST_TOLD]],
                "regression_count": len(sorted_told),
                "summary": summary,
            },
        },
    )


def _regression_data(told: Told) -> dict[str, Any]:
    news = told.news
    names = ("id", "title", "state", "direction", "cause", "owner", "opened_at", "changed_at")
    own = {name: getattr(news, name) for name in names}
    return {"type": f"regression.{told.kind}", "note": told.notes, **own} | {
        "kernels": news.kernels,
        "change_count": len(news.changes),
    }


def _id(identity: str) -> str:
    return f"msg_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
