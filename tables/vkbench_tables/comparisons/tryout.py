"""A try-out as a table, as lines for a terminal, and as Markdown for a review."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vkbench.words import markdown
from vkbench.words.sparklines import sparkline
from vkbench.words.units import count_of, ratio
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind
from vkbench_tables.written.text import markdown_table

if TYPE_CHECKING:
    from vkbench_detection.compare.tryouts import TriedCase, Tryout
    from vkbench_detection.statistics.ratios import Mean

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="verdict", heading="verdict", rank=Rank.KEY),
    Column(key="old_seconds", heading="old", kind=ValueKind.SECONDS),
    Column(key="new_seconds", heading="new", kind=ValueKind.SECONDS),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.KEY),
    Column(key="ratio_low", heading="from", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="ratio_high", heading="to", kind=ValueKind.RATIO, joined=True),
    Column(key="pairs", heading="pairs", kind=ValueKind.COUNT),
    Column(key="note", heading="why", prose=True),
)
DRAWN = Column(key="drawn", heading="each pair")  # of a review: a sparkline of new/old
# of a review
SHORT = ("case", "verdict", "old_seconds", "new_seconds", "ratio", "drawn", "pairs", "note")
SECTIONS = (  # of a review: what it says first, and the verdicts that it lists there
    ("Wrong or failed", ("wrong", "failed")),
    ("Slower", ("slower",)),
    ("May have changed", ("undecided",)),
    ("Faster or mended", ("faster", "fixed")),
)


def table(tryout: Tryout, cases: Iterable[TriedCase]) -> Table:
    """A row for each of these cases, and the geometric mean of all that were timed."""
    return Table(
        columns=COLUMNS,
        rows=[_row(tried) for tried in cases],
        summary=_figures(tryout),
        footer=_mean_row(tryout),
    )


def lines(tryout: Tryout) -> list[str]:
    """What a try-out found: the counts, the mean, the worst and the best, and each device."""
    said = [f"{tryout.old} → {tryout.new}: {_describe(tryout)}"]
    if extremes := _extremes(tryout):
        said.append(extremes)
    devices = tryout.by_device()
    if len(devices) > 1:
        said += [f"  {device.name}: {_describe(part)}" for device, part in devices.items()]
    return said


def in_markdown(tryout: Tryout) -> str:
    """A comment for a pull request: what is wrong first, then slower, then the rest in a fold."""
    parts = ["\n".join(f"- {markdown.escape_text(line.strip())}" for line in lines(tryout))]
    listed: set[TriedCase] = set()
    for title, verdicts in SECTIONS:
        cases = [tried for tried in tryout.cases if tried.verdict in verdicts]
        listed |= set(cases)
        if cases:
            parts.append(f"**{title}: {len(cases)}**\n\n{_short(tryout, cases)}")
    if rest := [tried for tried in tryout.cases if tried not in listed]:
        fold = f"<details><summary>{count_of(len(rest), 'other case')}</summary>\n\n"
        parts.append(f"{fold}{_short(tryout, rest)}\n</details>")
    return markdown.summary(headline(tryout), parts)


def _short(tryout: Tryout, cases: Sequence[TriedCase]) -> str:
    whole = table(tryout, cases)
    keys = ("device_name", *SHORT) if len(tryout.by_device()) > 1 else SHORT
    columns = [column for column in (*whole.columns, DRAWN) if column.key in keys]
    drawn = [
        {**row, "drawn": sparkline(tried.history)}
        for row, tried in zip(whole.rows, cases, strict=True)
    ]
    columns.sort(key=lambda column: keys.index(column.key))
    return markdown_table(Table(columns=columns, rows=drawn))


def headline(tryout: Tryout) -> str:
    """Both arms and the counts of what has to be looked at, in a line."""
    counts = {str(verdict): count for verdict, count in tryout.counts.items()}
    grave = [verdict for _, verdicts in SECTIONS for verdict in verdicts if verdict in counts]
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in grave)
    return f"{tryout.old} → {tryout.new}: {words or 'no change'}"


def _describe(tryout: Tryout) -> str:
    """The counts of verdicts, the share that is much slower, and the mean."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(tryout.counts.items()))
    words = [f"{count_of(len(tryout.cases), 'case')} ({counts})"]
    if tryout.timed_cases:
        words.append(f"{tryout.much_slower:.0%} slower by 5 % or more")
    if tryout.mean:
        words.append(f"geometric mean of new/old {_mean(tryout.mean)}")
    return ", ".join(words)


def _mean(mean: Mean) -> str:
    if mean.low is None or mean.high is None:
        return ratio(mean.value)
    return f"{ratio(mean.value)} ({ratio(mean.low)} to {ratio(mean.high)})"


def _extremes(tryout: Tryout) -> str:
    """The slowest and the fastest case, where there are several."""
    if len(tryout.timed_cases) < 2:
        return ""
    ends = {"worst": tryout.timed_cases[0], "best": tryout.timed_cases[-1]}
    return "  " + ", ".join(
        f"{word} {ratio(tried.ratio or 0.0)} {tried.case}" for word, tried in ends.items()
    )


def _row(tried: TriedCase) -> dict[str, Cell]:
    low, high = tried.bounds or (None, None)
    return {
        "host": tried.device.host,
        "device_name": tried.device.name,
        "device": tried.device.key,
        "case": tried.case,
        "verdict": str(tried.verdict),
        "old_seconds": tried.old_seconds,
        "new_seconds": tried.new_seconds,
        "ratio": tried.ratio,
        "ratio_low": low,
        "ratio_high": high,
        "pairs": tried.pairs,
        "note": tried.note,
    }


def _mean_row(tryout: Tryout) -> dict[str, Cell] | None:
    """The last row: the mean of all that were timed, of those that are not shown too."""
    if tryout.mean is None:
        return None
    return {
        "case": f"geomean of {len(tryout.timed_cases)}",
        "ratio": tryout.mean.value,
        "ratio_low": tryout.mean.low,
        "ratio_high": tryout.mean.high,
    }


def _figures(tryout: Tryout) -> dict[str, Cell]:
    mean = tryout.mean
    return {
        "old": tryout.old,
        "new": tryout.new,
        "cases": len(tryout.cases),
        "verdicts": {str(verdict): count for verdict, count in tryout.counts.items()},
        "slower_by_5_percent": tryout.much_slower,
        "geometric_mean": mean.value if mean else None,
        "geometric_mean_low": mean.low if mean else None,
        "geometric_mean_high": mean.high if mean else None,
        "devices": {
            device.key: {
                "name": device.name,
                "verdicts": {str(verdict): count for verdict, count in part.counts.items()},
                "geometric_mean": part.mean.value if part.mean else None,
            }
            for device, part in tryout.by_device().items()
        },
    }
