"""What people are told of a run or a regression, in Markdown: the gravest first, never too long."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log

from vkbench.job import JobState
from vkbench.programs.build import name_build
from vkbench.words import markdown, units
from vkbench_detection.changes.decisions import VERDICTS
from vkbench_detection.changes.states import REPORTED
from vkbench_detection.regress.news import ChangedCase, PeerNews, RegressionNews, RunNews

MOST_FALLEN = 20  # cases that a row names
_BAD = (JobState.WRONG, JobState.FAILED)
_ENDS = (*_BAD, JobState.PASSED, JobState.SKIPPED, JobState.CANCELLED)


def of_regression(news: RegressionNews) -> str:
    """A regression: what it is, where it shows, and what differs between before and after."""
    facts = [f"**{news.state}**", f"cause: {markdown.escape_text(news.cause)}"]
    facts += [f"owner: {markdown.escape_text(news.owner)}"] if news.owner else []
    parts = [", ".join(facts)]
    parts += [markdown.escape_text(news.note)] if news.note else []
    if len(news.kernels) > 1:
        parts += [f"kernels: {markdown.escape_text(units.list_counts(news.kernels))}"]
    if news.changes:
        parts += [_changes(_by_size(news.changes)), _provenance(news.changes)]
    return markdown.summary(f"Regression {news.id}: {news.title}", parts)


def of_many(title: str, rows: Sequence[tuple[RegressionNews, str, str]]) -> str:
    """Regressions that came up at once: each with what became of it, and what happened."""
    cells = [
        [
            str(news.id),
            became,
            markdown.escape_text(news.title),
            markdown.escape_text(news.cause),
            _largest(news.changes),
            markdown.escape_text(note),
        ]
        for news, became, note in rows
    ]
    headings = ["id", "news", "what", "cause", "worst", "where"]
    return markdown.summary(title, [markdown.table(headings, cells, right=(0, 4))])


def of_run(news: RunNews) -> str:
    """A run: what is wrong or failed, what became slower, what became faster, and the counts."""
    reported = [change for change in news.changes if change.state in REPORTED]
    slower = [change for change in reported if change.direction != "faster"]
    faster = [change for change in reported if change.direction == "faster"]
    parts = [_counts(news)]
    if news.trouble:
        parts += ["**Not right**", _troubles(news)]
    if slower:
        parts += [
            "**Slower, or wrong or failed where it was right**",
            _changes(_by_size(slower), states=True),
        ]
    if faster:
        parts += ["**Faster**", _changes(_by_size(faster), states=True)]
    if news.peers:
        parts += ["**Beside other programs**", _peers(news.peers)]
    name = f" ({news.label})" if news.label else ""
    return markdown.summary(f"Run {news.id}{name}: {_verdict(news, slower, faster)}", parts)


def is_eventful(news: RunNews) -> bool:
    """Whether a run has anything to tell but that all went well."""
    is_news = bool(news.trouble) or any(peer.fallen for peer in news.peers)
    return is_news or any(change.state in REPORTED for change in news.changes)


def _verdict(news: RunNews, slower: Sequence[ChangedCase], faster: Sequence[ChangedCase]) -> str:
    counted = [
        f"{count} {word}"
        for count, word in (
            *((news.counts.get(bad, 0), str(bad)) for bad in _BAD),
            (len(slower), "worse"),
            (len(faster), "faster"),
        )
        if count
    ]
    return ", ".join(counted) or "no change"


def _counts(news: RunNews) -> str:
    return ", ".join(f"{news.counts[end]} {end}" for end in _ENDS if news.counts.get(end))


def _troubles(news: RunNews) -> str:
    rows = [
        [
            markdown.code(trouble.case),
            markdown.escape_text(trouble.device_name),
            trouble.state,
            markdown.escape_text(trouble.reason),
        ]
        for trouble in news.trouble
    ]
    total = sum(news.counts.get(bad, 0) for bad in _BAD)
    return markdown.table(["case", "device", "", "why"], rows, total=total)


def _peers(peers: Sequence[PeerNews]) -> str:
    rows = [
        [
            markdown.escape_text(peer.peer),
            markdown.escape_text(peer.device_name),
            str(peer.cases),
            f"{peer.ratio:.3g}" if peer.ratio else "too noisy",
            ", ".join(map(markdown.code, peer.fallen[:MOST_FALLEN])) or "none",
        ]
        for peer in peers
    ]
    return markdown.table(
        ["peer", "device", "cases", "theirs / ours", "fell behind"], rows, right=(2, 3)
    )


def _changes(changes: Sequence[ChangedCase], *, states: bool = False) -> str:
    headings = ["case", "device", "metric", "new / old", "95 %", "p"]
    rows = [_change(change) for change in changes]
    if states:
        headings, rows = (
            [*headings, "state"],
            [[*row, change.state] for row, change in zip(rows, changes, strict=True)],
        )
    return markdown.table(headings, rows, right=(3, 4, 5))


def _change(change: ChangedCase) -> list[str]:
    return [
        markdown.code(f"{change.case} {change.variant}".strip()),
        markdown.escape_text(change.device_name),
        change.metric,
        change.direction if change.direction in VERDICTS else _number(change.ratio),
        _interval(change.low, change.high),
        "" if change.p is None else f"{change.p:.2g}",
    ]


def _provenance(changes: Sequence[ChangedCase]) -> str:
    """The kernels, builds and drivers before and after, each pair once."""
    pairs = dict.fromkeys(
        pair
        for change in changes
        for pair in (
            _arms(change),
            ("driver", change.before_driver, change.after_driver),
        )
        if pair[1] != pair[2]
    )
    rows = [[what, markdown.code(before), markdown.code(after)] for what, before, after in pairs]
    return markdown.table(["what moved", "before", "after"], rows) if rows else ""


def _arms(change: ChangedCase) -> tuple[str, str, str]:
    """What computed the case before and after, with what it is."""
    if change.program:
        old = name_build(change.before_build or "", change.before_bundle)
        return change.program, old, name_build(change.after_build or "", change.after_bundle)
    return "kernels", change.before_bundle[:12], change.after_bundle[:12]


def _largest(changes: Sequence[ChangedCase]) -> str:
    """The gravest of these changes."""
    worst = next(iter(_by_size(changes)), None)
    if worst is None:
        return ""
    return worst.direction if worst.direction in VERDICTS else _number(worst.ratio)


def _by_size(changes: Sequence[ChangedCase]) -> list[ChangedCase]:
    """Wrong and failed ones first, then the largest changes, whether slower or faster."""
    return sorted(
        changes, key=lambda change: (change.ratio is not None, -abs(log(change.ratio or 1.0)))
    )


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or not isfinite(high):
        return ""
    return f"{low:.3f} to {high:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
