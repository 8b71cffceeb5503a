"""A comparison as a table: a row for each timing and each changed verdict, and the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, isfinite, log
from statistics import fmean
from typing import TYPE_CHECKING

from vkbench.programs.build import is_of_build
from vkbench.software import list_moved
from vkbench.words.units import count_of
from vkbench_tables.comparisons.comparison_words import COUNTED, timing_counts, verdict_counts
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.compare.compared import ComparedChange, Comparison, Named, Pair
    from vkbench_detection.compare.drift import Drift
    from vkbench_detection.compare.provenance import Provenance
    from vkbench_detection.compare.sides import Side

    Made = Mapping[int, Provenance]

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="old_host", heading="old host", lifted=True, hidden=True),
    Column(key="old_device_name", heading="old device", lifted=True, hidden=True),
    Column(key="old_device", heading="old device key", lifted=True, hidden=True),
    Column(key="new_host", heading="new host", lifted=True, hidden=True),
    Column(key="new_device_name", heading="new device", lifted=True, hidden=True),
    Column(key="new_device", heading="new device key", lifted=True, hidden=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="mode", heading="mode", hidden=True),
    Column(key="variant", heading="variant", rank=Rank.MINOR),
    Column(key="metric", heading="metric", rank=Rank.KEY),
    Column(key="old_verdict", heading="was", rank=Rank.KEY, hidden=True),
    Column(key="new_verdict", heading="is", rank=Rank.KEY, hidden=True),
    Column(key="old_seconds", heading="old", kind=ValueKind.SECONDS),
    Column(key="old_roof_fraction", heading="old, of roof", kind=ValueKind.PERCENT),
    Column(key="old_spread", heading="±", kind=ValueKind.PERCENT),
    Column(key="new_seconds", heading="new", kind=ValueKind.SECONDS),
    Column(key="new_roof_fraction", heading="new, of roof", kind=ValueKind.PERCENT),
    Column(key="new_spread", heading="±", kind=ValueKind.PERCENT),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="ratio_low", heading="from", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="ratio_high", heading="to", kind=ValueKind.RATIO, joined=True),
    Column(key="delta", heading="delta", rank=Rank.KEY, for_people=True),
    Column(key="change", heading="", hidden=True),
    Column(key="p", heading="p", kind=ValueKind.PROBABILITY),
    Column(key="n", heading="n", for_people=True),
    Column(key="old_results", heading="old results", kind=ValueKind.COUNT, hidden=True),
    Column(key="new_results", heading="new results", kind=ValueKind.COUNT, hidden=True),
    Column(key="old_left_out", heading="old, left out", kind=ValueKind.COUNT, hidden=True),
    Column(key="new_left_out", heading="new, left out", kind=ValueKind.COUNT, hidden=True),
    Column(key="moved", heading="what moved", prose=True),
    Column(key="reason", heading="why", prose=True),
    Column(key="old_series", heading="old series", kind=ValueKind.ID, hidden=True),
    Column(key="new_series", heading="series", kind=ValueKind.ID, hidden=True),
    Column(key="old_job", heading="old job", kind=ValueKind.ID, hidden=True),
    Column(key="new_job", heading="new job", kind=ValueKind.ID, hidden=True),
    Column(key="old_bundle", heading="old bundle", hidden=True),
    Column(key="new_bundle", heading="new bundle", hidden=True),
    Column(key="old_driver_version", heading="old driver", hidden=True),
    Column(key="new_driver_version", heading="new driver", hidden=True),
)
_DEVICE = ("host", "device_name", "device")  # columns of the device that both sides share
DEVICES = tuple(f"{side}_{name}" for side in ("old", "new") for name in _DEVICE)
_ACROSS = {"old_verdict": "old verdict", "new_verdict": "new verdict", "moved": "also differs"}


def table(
    comparison: Comparison, pairs: Sequence[Pair], made: Made, drifts: Sequence[Drift]
) -> Table:
    """Verdicts that changed, then these pairs."""
    rows = [
        *map(_cells_of_change, comparison.changes),
        *(_cells_of_pair(pair, made, comparison.is_across) for pair in pairs),
    ]
    works = [*(change.work for change in comparison.changes), *(pair.work for pair in pairs)]
    shown = _device_columns(comparison, works)
    headings = _ACROSS if comparison.is_across else {}
    ranks = {"variant": Rank.KEY} if _has_twins(pairs) else {}
    columns = [
        replace(
            column,
            heading=headings.get(column.key, column.heading),
            rank=ranks.get(column.key, column.rank),
            hidden=column.key not in shown if column.key in (*_DEVICE, *DEVICES) else column.hidden,
        )
        for column in COLUMNS
    ]
    return Table(
        columns=columns,
        rows=rows,
        summary=_figures(comparison, drifts),
        footer=_geomean(comparison),
    )


def _has_twins(pairs: Sequence[Pair]) -> bool:
    """Whether only their variants tell some timings apart."""
    named = [(pair.work.case_name, pair.metric, pair.work.device) for pair in pairs]
    return len(set(named)) < len(named)


def _geomean(comparison: Comparison) -> dict[str, Cell] | None:
    """The last row: means of all timings with a ratio, of those that are not shown too."""
    if comparison.mean is None:
        return None
    sides = {
        "old_seconds": [pair.old.value for pair in comparison.averaged],
        "new_seconds": [pair.new.value for pair in comparison.averaged],
    }
    return {
        "case": f"geomean of {len(comparison.averaged)}",
        **{name: exp(fmean(map(log, values))) for name, values in sides.items()},
        "ratio": comparison.mean.value,
        "ratio_low": comparison.mean.low,
        "ratio_high": comparison.mean.high,
        "delta": _delta(comparison.mean.value),
    }


def _device_columns(comparison: Comparison, works: Sequence[Named]) -> tuple[str, ...]:
    """Which columns tell devices apart: keys only where names do not."""
    places = {place for work in works for place in (work.old, work.new)}
    is_told_apart = len(places) == len({(place.host, place.name) for place in places})
    columns = DEVICES if comparison.is_across else _DEVICE
    return tuple(name for name in columns if not (is_told_apart and name.endswith("device")))


def by_change(pair: Pair) -> tuple[int, float, str, str]:
    """The order of timings: slower, faster, the rest; the largest change first."""
    rank = 0 if pair.is_slower else 1 if pair.is_faster else 2
    size = pair.quotient if pair.is_faster else -pair.quotient
    return rank, size, pair.work.case_name, pair.metric


def _cells_of_change(change: ComparedChange) -> dict[str, Cell]:
    return {
        **_place(change.work),
        "case": change.work.case_name,
        "mode": change.work.mode,
        "variant": change.work.variant,
        "old_verdict": change.old,
        "new_verdict": change.new,
        "delta": f"{change.old} → {change.new}",
        "reason": change.reason,
        "new_job": change.job,
    }


def _place(work: Named) -> dict[str, Cell]:
    """On which device of each side, and on which one if it is the same."""
    cells: dict[str, Cell] = {}
    is_same = work.old == work.new
    for prefix, place in (("old_", work.old), ("new_", work.new), ("", work.new)):
        if prefix or is_same:
            cells |= {
                f"{prefix}host": place.host,
                f"{prefix}device_name": place.name,
                f"{prefix}device": place.key,
            }
    return cells


def _cells_of_pair(pair: Pair, made: Made, is_across: bool) -> dict[str, Cell]:
    # of a pair the result says what its new side ran, and of both what they were asked for
    old, new = (None if pair.is_in_turns else made.get(job) for job in (pair.old.job, pair.new.job))
    ran = dict.fromkeys(one.variant for one in (old, new) if one and one.variant)
    has_shares = is_across and pair.share_quotient is not None
    return {
        **_place(pair.work),
        "case": pair.work.case_name,
        "mode": pair.work.mode,
        "variant": " → ".join(ran) or pair.work.variant,
        "metric": pair.metric,
        **_side("old", pair.old, old),
        **_side("new", pair.new, new),
        "old_roof_fraction": pair.old.roof if has_shares else None,
        "new_roof_fraction": pair.new.roof if has_shares else None,
        **_ratio(pair),
        "n": _counts(len(pair.old.values), len(pair.new.values)),
        "moved": _describe_moves(old, new, is_across) if pair.is_slower or pair.is_faster else "",
        "reason": _doubts(pair),
    }


def _ratio(pair: Pair) -> dict[str, Cell]:
    """The ratio with its interval and p, as far as there is one; what that says."""
    ratio, word = pair.ratio, pair.word
    is_judged = word in COUNTED
    return {
        "ratio": ratio.ratio if ratio else None,
        "ratio_low": ratio.low if ratio and ratio.low > 0 else None,
        "ratio_high": ratio.high if ratio and isfinite(ratio.high) else None,
        "delta": _delta(pair.quotient) if pair.is_slower or pair.is_faster else str(word),
        "p": ratio.p if ratio and is_judged else None,
        "change": str(word),
    }


def _side(name: str, side: Side, made: Provenance | None) -> dict[str, Cell]:
    return {
        f"{name}_seconds": side.value,
        f"{name}_spread": (side.high - side.low) / 2 / side.value if side.samples > 1 else None,
        f"{name}_results": len(side.values),
        f"{name}_left_out": side.left_out,
        f"{name}_series": side.series,
        f"{name}_job": side.job,
        f"{name}_bundle": made.bundle if made else "",
        f"{name}_driver_version": made.driver_version if made else "",
    }


def _delta(quotient: float) -> str:
    """A change as people read it: +10.8%."""
    return f"{quotient - 1:+.1%}"


def _counts(old: int, new: int) -> str:
    """How many results each side has: 10, or 10+12."""
    return str(new) if old == new else f"{old}+{new}"


def _describe_moves(old: Provenance | None, new: Provenance | None, is_across: bool) -> str:
    """What differs between the sides, to look for the cause first; not on another device."""
    if not (old and new):
        return ""
    code = "build" if is_of_build(new.kernel_sha, new.bundle) else "kernel"
    fields = {
        "variant": old.variant != new.variant,
        code: old.kernel_sha != new.kernel_sha,
        "driver": _name_driver(old) != _name_driver(new),
    }
    moved = [name for name, has_moved in fields.items() if has_moved]
    if not is_across:
        moved += _name_software(old, new, fields["driver"])
    return ", ".join(moved) or ("" if is_across else "nothing")


def _name_software(old: Provenance, new: Provenance, has_other_driver: bool) -> list[str]:
    """What else the results depended on: settings of the host with their values."""
    if old.environment == new.environment:
        return []
    software = list_moved(old.software, new.software)
    if has_other_driver:  # whose versions are said already
        return [fact.words for fact in software if fact.is_set]
    return [fact.words if fact.is_set else fact.plain_name for fact in software] or ["environment"]


def _name_driver(ran: Provenance) -> tuple[str, str, str]:
    return ran.driver, ran.driver_version, ran.driver_sha


def _doubts(pair: Pair) -> str:
    """Why the pair says nothing, and what of a side is not as the newest result."""
    if pair.is_in_turns:
        return f"{count_of(len(pair.new.values), 'pair')} of both, timed in turns"
    doubts = [
        f"{name}: {', '.join(words)}"
        for name, side in (("old", pair.old), ("new", pair.new))
        if (words := _side_doubts(side, pair.word))
    ]
    return "; ".join(doubts)


def _side_doubts(side: Side, word: str) -> list[str]:
    doubts = [side.flag] if side.flag else []
    if word == "too noisy" and side.is_too_noisy:
        doubts.append("known to no better than 5 %")
    if word == "too few":
        doubts.append(f"{count_of(side.samples, 'sample')}, of no known scatter")
    if side.left_out:
        doubts.append(f"{side.left_out} left out, of another {side.left_out_for}")
    if not side.is_pure:
        doubts.append(f"its {len(side.values)} results do not all say what they ran")
    return doubts


def _figures(comparison: Comparison, drifts: Sequence[Drift]) -> dict[str, Cell]:
    slower, faster = timing_counts(comparison)
    wrong, fixed = verdict_counts(comparison)
    mean, share = comparison.mean, comparison.share_mean
    return {
        "old": comparison.old.name,
        "new": comparison.new.name,
        "is_across_devices": comparison.is_across,
        "old_devices": [place._asdict() for place in comparison.old_places],
        "new_devices": [place._asdict() for place in comparison.new_places],
        "pairs": len(comparison.pairs),
        "slower": slower,
        "faster": faster,
        "same": comparison.words["~"],
        "flagged": comparison.words["flagged"],
        "too_noisy": comparison.words["too noisy"],
        "too_few": comparison.words["too few"],
        "wrong": wrong,
        "fixed": fixed,
        "only_old": comparison.only_old,
        "only_new": comparison.only_new,
        "geometric_mean": mean.value if mean else None,
        "geometric_mean_low": mean.low if mean else None,
        "geometric_mean_high": mean.high if mean else None,
        "geometric_mean_why": mean.why if mean else "",
        "roof_pairs": share.count if share else 0,
        "roof_geometric_mean": share.value if share else None,
        "roof_geometric_mean_low": share.low if share else None,
        "roof_geometric_mean_high": share.high if share else None,
        "devices": {
            key: {
                "name": name,
                "geometric_mean": one.value,
                "low": one.low,
                "high": one.high,
                "why": one.why,
            }
            for (key, name), one in comparison.device_means.items()
        },
        "canaries": {
            drift.device: {"ratio": drift.ratio, "count": drift.count} for drift in drifts
        },
    }
