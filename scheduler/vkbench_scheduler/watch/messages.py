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
    """One message to a channel."""

    id: str  # the same in every try and channel: who heard it before can tell
    title: str
    text: str  # Markdown
    body: Mapping[str, Any]  # for programs
    news: RegressionNews | None = None  # of a message about one regression


def write_message(
    identity: str, kind: str, at: float, *, title: str, text: str, data: Mapping[str, Any]
) -> Message:
    """A message of a kind about something of a moment, whose identity no other message has."""
    return Message(
        id=f"msg_{hashlib.sha256(identity.encode()).hexdigest()[:32]}",
        title=f"vkbench: {title}",
        text=text,
        body={
            "type": kind,
            "timestamp": datetime.fromtimestamp(at, UTC).isoformat(),
            "data": data,
        },
    )


@dataclass(frozen=True, kw_only=True)
class RegressionAlert:
    """A regression with the announcements to send about it, the newest last."""

    news: RegressionNews
    announcements: Sequence[Announcement]

    @property
    def kind(self) -> str:
        """The kind of the newest announcement."""
        return self.announcements[-1].kind

    @property
    def notes(self) -> str:
        """The notes of the announcements, each once."""
        return "; ".join(
            dict.fromkeys(
                announcement.note for announcement in self.announcements if announcement.note
            )
        )

    @property
    def identity(self) -> str:
        """A text that no other alert has."""
        names = ",".join(announcement.name for announcement in self.announcements)
        news = self.news  # not its title, which changes as devices join
        return f"{news.id} {news.opened_at} {news.direction} {news.cause} {names}"


def message_of(alert: RegressionAlert) -> Message:
    """The message about one regression."""
    news = replace(alert.news, note=alert.notes or alert.news.note)
    summary = summaries.of_regression(news)
    shown = [asdict(change) for change in news.changes[:MOST_CHANGES]]
    more = {"changes": shown, "change_count": len(news.changes), "summary": summary}
    message = write_message(
        alert.identity,
        f"regression.{alert.kind}",
        news.changed_at,
        title=f"regression {news.id} {_BECAME[alert.kind]}: {news.title}",
        text=summary,
        data=asdict(news) | more,
    )
    return replace(message, news=news)


def digest_of(alerts: Sequence[RegressionAlert]) -> Message:
    """One message about many regressions."""
    order = list(_BECAME)
    in_order = sorted(alerts, key=lambda alert: (order.index(alert.kind), alert.news.id))
    counts = {kind: sum(alert.kind == kind for alert in in_order) for kind in order}
    counted = ", ".join(f"{count} {_BECAME[kind]}" for kind, count in counts.items() if count)
    title = f"{len(in_order)} regressions: {counted}"
    rows = [(alert.news, _BECAME[alert.kind], alert.notes) for alert in in_order]
    summary = summaries.of_many(title, rows)
    return write_message(
        "\n".join(sorted(alert.identity for alert in in_order)),
        "regressions.digest",
        max(alert.news.changed_at for alert in in_order),
        title=title,
        text=summary,
        data={
            "regressions": [_regression_data(alert) for alert in in_order[:MOST_TOLD]],
            "regression_count": len(in_order),
            "summary": summary,
        },
    )


def _regression_data(alert: RegressionAlert) -> dict[str, Any]:
    news = alert.news
    names = ("id", "title", "state", "direction", "cause", "owner", "opened_at", "changed_at")
    own = {name: getattr(news, name) for name in names}
    return {"type": f"regression.{alert.kind}", "note": alert.notes, **own} | {
        "kernels": news.kernels,
        "change_count": len(news.changes),
    }
