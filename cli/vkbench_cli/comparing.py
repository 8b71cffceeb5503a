"""A comparison as people and programs see it: its rows, a sentence of summary, Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from vkbench import markdown
from vkbench.job import State
from vkbench.units import counted
from vkbench_cli.printing import Cell, Column, Kind, Table, markdown_table

if TYPE_CHECKING:
    from vkbench_db.comparison import Change, Comparison, Pair
    from vkbench_db.drift import Drift
    from vkbench_db.provenance import Provenance
    from vkbench_db.statistics.ratios import Mean
    from vkbench_db.works import Side

    Made = Mapping[int, Provenance]

Rows = Sequence[Mapping[str, Cell]]

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="case", heading="case"),
    Column(key="mode", heading="mode", hidden=True),
    Column(key="variant", heading="variant"),
    Column(key="metric", heading="metric"),
    Column(key="old_verdict", heading="was"),
    Column(key="new_verdict", heading="is"),
    Column(key="old_seconds", heading="old", kind=Kind.SECONDS),
    Column(key="old_roof_fraction", heading="old, of roof", kind=Kind.PERCENT),
    Column(key="old_spread", heading="±", kind=Kind.PERCENT),
    Column(key="old_results", heading="old results", kind=Kind.COUNT, hidden=True),
    Column(key="new_seconds", heading="new", kind=Kind.SECONDS),
    Column(key="new_roof_fraction", heading="new, of roof", kind=Kind.PERCENT),
    Column(key="new_spread", heading="±", kind=Kind.PERCENT),
    Column(key="new_results", heading="new results", kind=Kind.COUNT, hidden=True),
    Column(key="ratio", heading="new/old", kind=Kind.NUMBER),
    Column(key="ratio_low", heading="from", kind=Kind.NUMBER),
    Column(key="ratio_high", heading="to", kind=Kind.NUMBER),
    Column(key="p", heading="p", kind=Kind.NUMBER),
    Column(key="change", heading=""),
    Column(key="moved", heading="what moved"),
    Column(key="reason", heading="why"),
    Column(key="old_series", heading="old series", hidden=True),
    Column(key="new_series", heading="series", hidden=True),
    Column(key="old_job", heading="old job", hidden=True),
    Column(key="new_job", heading="new job", hidden=True),
    Column(key="old_bundle", heading="old bundle", hidden=True),
    Column(key="new_bundle", heading="new bundle", hidden=True),
    Column(key="old_driver_version", heading="old driver", hidden=True),
    Column(key="new_driver_version", heading="new driver", hidden=True),
)


def table(found: Comparison, pairs: Sequence[Pair], made: Made, drifts: Sequence[Drift]) -> Table:
    """Verdicts that changed, then these pairs."""
    rows = [*map(_changed, found.changes), *(_timed(pair, made) for pair in pairs)]
    named = {(pair.work.host, pair.work.device_name) for pair in pairs}
    is_told_apart = len({pair.work.device for pair in pairs}) <= len(named)
    columns = [
        column if is_told_apart or column.key != "device" else replace(column, hidden=False)
        for column in COLUMNS
    ]
    return Table(columns=columns, rows=rows, summary=_figures(found, drifts))


def summary(found: Comparison) -> str:
    """One line: what was compared, what changed, and the mean of all."""
    words = [f"{found.old.name} → {found.new.name}: {len(found.pairs)} timings in common"]
    if found.pairs:
        slower, faster = _count(found)
        same = len(found.pairs) - slower - faster
        words[0] += f" ({slower} slower, {faster} faster, {same} ~)"
    if found.mean:
        words.append(f"geometric mean of new/old {_mean(found.mean)}")
    if found.changes:
        wrong, fixed = _verdicts(found)
        words.append(f"{len(found.changes)} verdicts changed ({wrong} wrong, {fixed} fixed)")
    return ", ".join(words) + alone(found)


def device_lines(found: Comparison) -> list[str]:
    """What each device changed by, and all of them; nothing where there is one."""
    lines = [f"  {name} ({key}): {_mean(mean)}" for (key, name), mean in found.device_means.items()]
    return [*lines, f"  all devices alike: {_mean(found.fleet_mean)}"] if found.fleet_mean else []


def drift_lines(drifts: Sequence[Drift]) -> list[str]:
    """What each device's canary says: what it changed by, no kernel did."""
    return [
        f"  canary of {each.name} ({each.device}): {each.ratio:.4f} of what it was"
        for each in drifts
    ]


def alone(found: Comparison) -> str:
    """What only one side has, and why devices have no timing in common."""
    said = ""
    if found.only_old or found.only_new:
        old = counted(found.only_old, "case")
        said = f" ({old} only in the old one, {found.only_new} only in the new one)"
    if found.old.device and not found.pairs:
        said += "; shares of the roof need `vkbench calibrate` on both devices"
    return said


def in_markdown(found: Comparison, shown: Table, drifts: Sequence[Drift]) -> str:
    """A summary for a review: the gravest first, as long as GitHub takes it."""
    words = markdown.escaped(summary(found)).replace("\\~", "within noise")
    lines = [*device_lines(found), *drift_lines(drifts)]
    parts = [words, "\n".join(f"- {markdown.escaped(line)}" for line in lines)]
    for title, rows in _chapters(shown.rows):
        if rows:
            parts.append(f"**{title}: {len(rows)}**\n\n{markdown_table(_short(shown, rows))}")
    return markdown.summary(_headline(found), [part for part in parts if part])


def _headline(found: Comparison) -> str:
    wrong, fixed = _verdicts(found)
    slower, faster = _count(found)
    counts = {"wrong": wrong, "fixed": fixed, "slower": slower, "faster": faster}
    return ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "No change"


def _chapters(rows: Rows) -> list[tuple[str, Rows]]:
    def of(change: str) -> Rows:
        return [row for row in rows if row.get("change") == change]

    return [
        ("Verdicts changed", [row for row in rows if row.get("new_verdict")]),
        *((change.capitalize(), of(change)) for change in ("slower", "faster")),
        ("Within noise", of("~")),
    ]


def _short(shown: Table, rows: Rows) -> Table:
    """Of these rows what fits beside each other."""
    left_out = ("change", "old_spread", "new_spread", "mode")
    columns = [column for column in shown.columns if column.key not in left_out]
    return Table(columns=columns, rows=rows)


def _changed(change: Change) -> dict[str, Cell]:
    return {
        "host": change.work.host,
        "device_name": change.work.device_name,
        "device": change.work.device,
        "case": change.work.case_name,
        "mode": change.work.mode,
        "variant": change.work.variant,
        "old_verdict": change.old,
        "new_verdict": change.new,
        "reason": change.reason,
        "new_job": change.job,
    }


def _timed(pair: Pair, made: Made) -> dict[str, Cell]:
    old, new = made.get(pair.old.job), made.get(pair.new.job)
    ran = dict.fromkeys(one.variant for one in (old, new) if one and one.variant)
    ratio = pair.ratio
    return {
        "host": pair.work.host,
        "device_name": pair.work.device_name,
        "device": pair.work.device,
        "case": pair.work.case_name,
        "mode": pair.work.mode,
        "variant": " → ".join(ran) or pair.work.variant,
        "metric": pair.metric,
        **_side("old", pair.old, old, is_roof=not pair.work.device),
        **_side("new", pair.new, new, is_roof=not pair.work.device),
        "ratio": ratio.ratio,
        "ratio_low": ratio.low if ratio.low > 0 else None,
        "ratio_high": ratio.high if isfinite(ratio.high) else None,
        "p": ratio.p,
        "change": "slower" if pair.is_slower else "faster" if pair.is_faster else "~",
        "moved": _moved(old, new) if pair.is_changed and pair.work.device else "",
        "reason": _doubts(pair),
    }


def _side(name: str, side: Side, made: Provenance | None, *, is_roof: bool) -> dict[str, Cell]:
    return {
        f"{name}_seconds": None if is_roof else side.value,
        f"{name}_roof_fraction": 1 / side.value if is_roof else None,
        f"{name}_spread": (side.high - side.low) / 2 / side.value if side.samples > 1 else None,
        f"{name}_results": len(side.values),
        f"{name}_series": side.series,
        f"{name}_job": side.job,
        f"{name}_bundle": made.bundle if made else "",
        f"{name}_driver_version": made.driver_version if made else "",
    }


def _moved(old: Provenance | None, new: Provenance | None) -> str:
    """What is not as it was: where to look for the cause first."""
    if not (old and new):
        return ""
    fields = {
        "variant": old.variant != new.variant,
        "kernel": old.kernel_sha != new.kernel_sha,
        "driver": (old.driver, old.driver_version) != (new.driver, new.driver_version),
        "environment": old.environment != new.environment,
    }
    if fields["driver"]:
        fields["environment"] = False  # said already
    return ", ".join(name for name, has_moved in fields.items() if has_moved) or "nothing"


def _doubts(pair: Pair) -> str:
    said = {"old": pair.old.flag, "new": pair.new.flag}
    return "; ".join(f"{side}: {flag}" for side, flag in said.items() if flag)


def _count(found: Comparison) -> tuple[int, int]:
    """Slower and faster ones."""
    slower = sum(pair.is_slower for pair in found.pairs)
    return slower, sum(pair.is_faster for pair in found.pairs)


def _verdicts(found: Comparison) -> tuple[int, int]:
    """What became wrong, and what is right now."""
    wrong = sum(change.new is State.WRONG for change in found.changes)
    return wrong, sum(change.new is State.PASSED for change in found.changes)


def _mean(mean: Mean) -> str:
    if mean.low is None or mean.high is None:
        return f"{mean.value:.4f}"
    return f"{mean.value:.4f} ({mean.low:.4f} to {mean.high:.4f})"


def _figures(found: Comparison, drifts: Sequence[Drift]) -> dict[str, Cell]:
    slower, faster = _count(found)
    wrong, fixed = _verdicts(found)
    mean = found.mean
    return {
        "old": found.old.name,
        "new": found.new.name,
        "pairs": len(found.pairs),
        "slower": slower,
        "faster": faster,
        "wrong": wrong,
        "fixed": fixed,
        "only_old": found.only_old,
        "only_new": found.only_new,
        "geometric_mean": mean.value if mean else None,
        "geometric_mean_low": mean.low if mean else None,
        "geometric_mean_high": mean.high if mean else None,
        "devices": {
            key: {"name": name, "geometric_mean": one.value, "low": one.low, "high": one.high}
            for (key, name), one in found.device_means.items()
        },
        "canaries": {each.device: {"ratio": each.ratio, "count": each.count} for each in drifts},
    }
