"""A comparison for the page and for the API: what `vkbench compare` finds, as its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from typing import TYPE_CHECKING

from vkbench.errors import NothingToDo
from vkbench.words import names
from vkbench_db.database import Transaction
from vkbench_tables.comparisons import comparison, comparison_words
from vkbench_tables.table import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vkbench_detection.compare.compared import Comparison
    from vkbench_detection.compare.drift import Drift

METRICS = ("hot", "cold")
WIDTH = 120  # of a bar's picture
_LEAST, _MOST = log(1.02), log(2.0)  # how far bars reach from 1, at least and at most


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A comparison, and those of its rows that are shown."""

    comparison: Comparison
    table: Table
    drifts: Sequence[Drift]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A ratio with its interval as a picture: places on an axis of logarithms."""

    middle: float
    low: float
    high: float
    word: str  # slower | faster | ~


def compare_words(
    tx: Transaction, old: str, new: str, *, metrics: Sequence[str] = (), unchanged: bool = False
) -> Compared:
    """Compare the two sides that words name; without `unchanged` show only changed timings."""
    from vkbench_detection.compare.comparison import compare, with_noise
    from vkbench_detection.compare.drift import drifts
    from vkbench_detection.compare.provenance import provenances
    from vkbench_detection.compare.references import find

    metric_names = [names.pick(metric, METRICS, "metric") for metric in metrics if metric]
    compared = compare(tx, find(tx, old), find(tx, new), metrics=metric_names)
    if not (compared.pairs or compared.changes):
        raise NothingToDo(
            f"{comparison_words.sides(compared)}: no timed case in common"
            f"{comparison_words.one_sided_cases(compared)}"
        )
    chosen = [pair for pair in compared.pairs if unchanged or pair.is_slower or pair.is_faster]
    pairs = sorted(with_noise(tx, chosen, compared.histories), key=comparison.by_change)
    jobs = (side.job for pair in pairs for side in (pair.old, pair.new))
    canaries = drifts(tx, compared.pairs)
    made = provenances(tx, jobs)
    return Compared(
        comparison=compared,
        table=comparison.table(compared, pairs, made, canaries),
        drifts=canaries,
    )


def bars(rows: Sequence[Mapping[str, Cell]], reach: float | None = None) -> list[Bar | None]:
    """The ratio of each row as a bar, all on one axis; None of rows without a ratio."""
    scale = reach or reach_of(rows)
    return [_bar(row, scale) for row in rows]


def reach_of(rows: Sequence[Mapping[str, Cell]]) -> float:
    """How far from 1 the axis of these rows reaches, as a logarithm."""
    logarithms = [abs(log(value)) for row in rows if (value := _number(row.get("ratio"))) > 0]
    return min(_MOST, max([_LEAST, *logarithms]) * 1.25)


def ticks(reach: float) -> tuple[str, str]:
    """The ratios at both ends of an axis."""
    return f"{exp(-reach):.2f}", f"{exp(reach):.2f}"


def _bar(row: Mapping[str, Cell], reach: float) -> Bar | None:
    ratio = _number(row.get("ratio"))
    if ratio <= 0:
        return None
    low, high = (_number(row.get(name)) or None for name in ("ratio_low", "ratio_high"))
    return Bar(
        middle=_place(ratio, reach),
        low=_place(low, reach) if low else 0.0,
        high=_place(high, reach) if high else float(WIDTH),
        word=str(row.get("change") or "~"),
    )


def _place(ratio: float, reach: float) -> float:
    share = (log(ratio) / reach + 1) / 2
    return round(WIDTH * min(1.0, max(0.0, share)), 1)


def _number(value: Cell) -> float:
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0
