"""The self-test of the detection as rows: what each noise shows, and what each scenario shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.statistics.selftest import (
        Found,
        HistoryFound,
        HistoryQuiet,
        Quiet,
        Report,
    )
    from vkbench_local.selftest.score import Row

WITHIN = (1, 3, 10, 20)  # results
# what is tried: screen and pairs, the pass over histories, or the scheduler's steps in a lab
PAIRS, HISTORY, LAB = "pairs", "history", "lab"

COLUMNS = (
    Column(key="noise", heading="noise of a job"),
    Column(key="scenario", heading="what happens in the lab"),
    Column(key="about", heading="", rank=Rank.MINOR),
    Column(key="stage", heading="tried", rank=Rank.MINOR),
    Column(key="change", heading="change", kind=ValueKind.PERCENT),
    Column(key="direction", heading=""),
    Column(key="false_per_1000", heading="false/1000", kind=ValueKind.VALUE),
    Column(key="blamed_per_1000", heading="blamed/1000", kind=ValueKind.VALUE),
    Column(key="ambiguous_per_1000", heading="ambiguous/1000", kind=ValueKind.VALUE),
    Column(key="jobs_per_1000", heading="extra jobs/1000", kind=ValueKind.COUNT),
    *(Column(key=f"found_{n}", heading=f"found @{n}", kind=ValueKind.PERCENT) for n in WITHIN),
    Column(key="delay", heading="delay", kind=ValueKind.COUNT),
    Column(key="certain", heading="certain", kind=ValueKind.PERCENT),
    Column(key="ambiguous", heading="ambiguous", kind=ValueKind.PERCENT),
    Column(key="changes", heading="changes", kind=ValueKind.COUNT),
    Column(key="right_place", heading="right bundle", kind=ValueKind.PERCENT),
    Column(key="right_cause", heading="right cause", kind=ValueKind.PERCENT),
    Column(key="right_state", heading="state", kind=ValueKind.PERCENT, rank=Rank.MINOR),
    Column(key="covered", heading="size covered", kind=ValueKind.PERCENT, rank=Rank.MINOR),
    Column(key="nights", heading="nights", kind=ValueKind.VALUE),
    Column(key="pairs_per_100", heading="pairs/100", kind=ValueKind.VALUE),
    Column(key="target", heading="target"),
    Column(key="verdict", heading="", rank=Rank.KEY),
    Column(key="count", heading="results, or streams", hidden=True),
)


def rows_of_noise(report: Report) -> list[dict[str, Cell]]:
    """Each noise with the changes in it, first by pairs and then by history."""
    rows = []
    for quiet, history in zip(report.quiet, report.history_quiet, strict=True):
        rows.append(_cells_of_quiet(quiet))
        rows += [_cells_of_found(change) for change in report.found if change.noise == quiet.noise]
        rows.append(_history_quiet(history))
        rows += [_history(change) for change in report.history_found if change.noise == quiet.noise]
    return rows


def rows_of_lab(scenarios: Sequence[Row]) -> list[dict[str, Cell]]:
    """Each scenario of the lab, and all of them together."""
    return [_scenario(scenario) for scenario in scenarios]


def _cells_of_quiet(quiet: Quiet) -> dict[str, Cell]:
    from vkbench_detection.statistics.selftest import FALSE_PER_1000

    return {
        "noise": quiet.noise,
        "stage": PAIRS,
        "false_per_1000": quiet.per_1000(quiet.confirmed),
        "ambiguous_per_1000": quiet.per_1000(quiet.ambiguous),
        "jobs_per_1000": quiet.per_1000(quiet.jobs),
        "target": f"false ≤ {FALSE_PER_1000}/1000",
        "verdict": _verdict(quiet.is_met),
        "count": quiet.results,
    }


def _cells_of_found(change: Found) -> dict[str, Cell]:
    target = change.wanted
    return {
        "noise": change.noise,
        "stage": PAIRS,
        "change": change.change,
        "direction": change.direction,
        **{f"found_{n}": change.recall(n) for n in WITHIN},
        "delay": change.delay,
        "target": f"@{target.within} ≥ {target.recall:.0%}" if target else "",
        "verdict": _verdict(change.is_met),
        "count": len(change.delays),
    }


def _history_quiet(quiet: HistoryQuiet) -> dict[str, Cell]:
    from vkbench_detection.statistics.selftest import FALSE_PER_1000

    return {
        "noise": quiet.noise,
        "stage": HISTORY,
        "false_per_1000": quiet.per_1000(quiet.certain),
        "blamed_per_1000": quiet.per_1000(quiet.blamed),
        "ambiguous_per_1000": quiet.per_1000(quiet.ambiguous),
        "target": f"blamed ≤ {FALSE_PER_1000}/1000",
        "verdict": _verdict(quiet.is_met),
        "count": quiet.results,
    }


def _history(change: HistoryFound) -> dict[str, Cell]:
    target = change.wanted
    return {
        "noise": change.noise,
        "stage": HISTORY,
        "change": change.change,
        "direction": "either",
        "certain": change.certain_share,
        "ambiguous": change.told_share - change.certain_share,
        "target": f"certain ≥ {target.certain:.0%}, told ≥ {target.told:.0%}" if target else "",
        "verdict": _verdict(change.is_met),
        "count": change.series,
    }


def _scenario(row: Row) -> dict[str, Cell]:
    return {
        "scenario": row.name,
        "about": row.about,
        "stage": LAB,
        "changes": len(row.score.outcomes),
        "right_place": row.right_place,
        "right_cause": row.right_cause,
        "right_state": row.right_state,
        "covered": row.covered,
        "nights": row.nights,
        "blamed_per_1000": round(row.blamed_per_1000, 2),
        "false_per_1000": round(row.all_false_per_1000, 2),
        "pairs_per_100": round(row.pairs_per_100, 1),
        "target": "; ".join(row.missed),
        "verdict": _verdict(not row.missed),
        "count": row.score.results,
    }


def _verdict(is_met: bool | None) -> str:
    return "" if is_met is None else "PASS" if is_met else "FAIL"
