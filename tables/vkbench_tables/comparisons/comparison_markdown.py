"""A comparison as a summary in Markdown, for a review, a chat or a mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vkbench.job import JobState
from vkbench.words import markdown
from vkbench.words.sparklines import sparkline
from vkbench_tables.comparisons import comparison, comparison_words
from vkbench_tables.table import Cell, Column, Table
from vkbench_tables.written.text import markdown_table

if TYPE_CHECKING:
    from vkbench_detection.compare.compared import Comparison
    from vkbench_detection.compare.drift import Drift

Rows = Sequence[Mapping[str, Cell]]
LEAST_DRAWN = 4  # results of a history
_HISTORY = Column(key="history", heading="history")  # a sparkline, the new result last
_OPEN = ("Verdicts", "Slower", "Faster")  # chapters whose rows show; the others are folded


def in_markdown(
    compared: Comparison,
    shown: Table,
    drifts: Sequence[Drift],
    histories: Mapping[object, Sequence[float]] | None = None,
) -> str:
    """A summary for a review: the gravest first, as long as GitHub takes it.

    Histories are seconds by series, the new result last. They are drawn in letters: forges take
    pictures out of comments, inline ones (SVG) and those that a URL holds.
    """
    words = markdown.escape_text(comparison_words.summary(compared)).replace("\\~", "within noise")
    lines = [*comparison_words.device_lines(compared), *comparison_words.drift_lines(drifts)]
    parts = [words, "\n".join(f"- {markdown.escape_text(line)}" for line in lines)]
    for title, rows in _chapters(compared, shown.rows):
        if rows:
            heading = f"{title}: {len(rows)}"
            listed = markdown_table(_draw(_short(compared, shown, rows), histories or {}))
            is_folded = title.partition(" ")[0] not in _OPEN
            parts.append(
                f"<details><summary>{heading}</summary>\n\n{listed}\n</details>"
                if is_folded
                else f"**{heading}**\n\n{listed}"
            )
    return markdown.summary(headline(compared), [part for part in parts if part])


def headline(compared: Comparison) -> str:
    """The counts of what changed, the gravest first, in a line."""
    ends = comparison_words.ends_of(compared)
    verdicts = {
        "wrong": ends[JobState.WRONG],
        "failed": ends[JobState.FAILED],
        "skipped": ends[JobState.SKIPPED],
        "passed" if compared.is_across else "fixed": ends[JobState.PASSED],
    }
    slower, faster = comparison_words.timing_counts(compared)
    timings = {"slower": slower, "faster": faster}
    if not compared.is_across:
        counts = verdicts | timings
        return ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "No change"
    counts = {f"{what} only there": n for what, n in verdicts.items()} | timings
    words = ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "no difference"
    return f"Across devices: {words}"


def _chapters(compared: Comparison, rows: Rows) -> list[tuple[str, Rows]]:
    def of(change: str) -> Rows:
        return [row for row in rows if row.get("change") == change]

    return [
        (
            f"Verdicts {'that differ' if compared.is_across else 'changed'}",
            [row for row in rows if row.get("new_verdict")],
        ),
        *((change.capitalize(), of(change)) for change in ("slower", "faster")),
        ("Within noise", of("~")),
        *((words.capitalize(), of(word)) for word, words in comparison_words.UNCOUNTED.items()),
    ]


def _draw(table: Table, histories: Mapping[object, Sequence[float]]) -> Table:
    """The table with a sparkline of each row whose series has a history."""
    rows = [
        {**row, "history": sparkline(seconds) if len(seconds) >= LEAST_DRAWN else ""}
        for row in table.rows
        for seconds in [histories.get(row.get("new_series"), ())]
    ]
    return Table(columns=[*table.columns, _HISTORY], rows=rows)


def _short(compared: Comparison, shown: Table, rows: Rows) -> Table:
    """Of these rows what fits beside each other."""
    is_said = compared.is_across and len(compared.old_places) == len(compared.new_places) == 1
    devices = comparison.DEVICES if is_said else ()
    left_out = ("change", "old_spread", "new_spread", "mode", *devices)
    verdicts = ("old_verdict", "new_verdict") if any(row.get("new_verdict") for row in rows) else ()
    if verdicts:
        left_out = (*left_out, "delta")
    columns = [
        replace(column, hidden=False) if column.key in verdicts else column
        for column in shown.columns
        if column.key not in left_out
    ]
    return Table(columns=columns, rows=rows)
