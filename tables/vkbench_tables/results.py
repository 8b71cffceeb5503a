"""Results as a table: a row a job, its timings beside each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from vkbench.case import tokens_of
from vkbench.programs.build import name_build
from vkbench.result import COMPILE, COPIES, SUBMIT, Side
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.results import ResultRow


COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="key", hidden=True),
    Column(key="driver", heading="driver", hidden=True),
    Column(key="driver_version", heading="driver version", hidden=True),
    Column(key="environment", heading="environment", hidden=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="kernel", heading="kernel", hidden=True),
    Column(key="format", heading="format", hidden=True),
    Column(key="types", heading="other formats", hidden=True),
    Column(key="shape", heading="shape", hidden=True),
    Column(key="params", heading="parameters", hidden=True),
    Column(key="mode", heading="mode", hidden=True),
    Column(key="variant", heading="variant"),
    Column(key="build", heading="build"),
    Column(key="settings", heading="settings", hidden=True),
    Column(key="verdict", heading="verdict", rank=Rank.KEY),
    Column(key="nmse", heading="nmse", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="max_abs", heading="largest error", kind=ValueKind.NUMBER, hidden=True),
    Column(key="hot_seconds", heading="hot", kind=ValueKind.SECONDS, rank=Rank.KEY),
    Column(key="hot_spread", heading="±", kind=ValueKind.PERCENT),
    Column(key="hot_low_seconds", heading="hot low", kind=ValueKind.SECONDS, hidden=True),
    Column(key="hot_high_seconds", heading="hot high", kind=ValueKind.SECONDS, hidden=True),
    Column(key="hot_samples", heading="hot samples", kind=ValueKind.COUNT, hidden=True),
    Column(key="hot_series", heading="hot series", kind=ValueKind.ID, hidden=True),
    Column(key="cold_seconds", heading="cold", kind=ValueKind.SECONDS, rank=Rank.MINOR),
    Column(key="cold_spread", heading="±", kind=ValueKind.PERCENT, joined=True),
    Column(key="cold_low_seconds", heading="cold low", kind=ValueKind.SECONDS, hidden=True),
    Column(key="cold_high_seconds", heading="cold high", kind=ValueKind.SECONDS, hidden=True),
    Column(key="cold_samples", heading="cold samples", kind=ValueKind.COUNT, hidden=True),
    Column(key="cold_series", heading="cold series", kind=ValueKind.ID, hidden=True),
    Column(key="copies_seconds", heading="with copies", kind=ValueKind.SECONDS),
    Column(key="compile_seconds", heading="compile", kind=ValueKind.SECONDS),
    Column(key="submit_seconds", heading="submit", kind=ValueKind.SECONDS),
    Column(key="old_seconds", heading="old", kind=ValueKind.SECONDS),
    Column(key="new_seconds", heading="new", kind=ValueKind.SECONDS),
    Column(key="tokens_per_second", heading="tokens/s", kind=ValueKind.NUMBER, rank=Rank.KEY),
    Column(key="bytes_per_second", heading="", kind=ValueKind.BYTE_RATE),
    Column(key="flops_per_second", heading="", kind=ValueKind.FLOP_RATE, rank=Rank.MINOR),
    Column(key="roof_fraction", heading="of roof", kind=ValueKind.PERCENT),
    Column(key="path_fraction", heading="of path", kind=ValueKind.PERCENT, rank=Rank.MINOR),
    Column(
        key="cold_roof_fraction", heading="cold, of roof", kind=ValueKind.PERCENT, rank=Rank.MINOR
    ),
    Column(key="memory_bytes", heading="memory", kind=ValueKind.BYTES, rank=Rank.MINOR),
    Column(key="remark", heading="remark", prose=True),
    Column(key="cause", heading="cause", hidden=True),
    Column(key="reason", heading="reason", hidden=True),
    Column(key="warnings", heading="warnings", hidden=True),
    Column(key="made_of", heading="made of", rank=Rank.MINOR, prose=True),
    Column(key="bundle", heading="bundle", hidden=True),
    Column(key="kernel_sha", heading="code", hidden=True),
    Column(key="run", heading="run", kind=ValueKind.ID, hidden=True),
    Column(key="run_uuid", heading="run UUID", hidden=True),
    Column(key="run_label", heading="label", hidden=True),
    Column(key="job", heading="job", kind=ValueKind.ID, hidden=True),
    Column(key="finished_at", heading="finished", kind=ValueKind.TIME, rank=Rank.MINOR),
)

_OTHERS = (COPIES, COMPILE, SUBMIT, Side.OLD, Side.NEW)  # timings shown by their median only


def table(rows: Sequence[Mapping[str, Cell]], hidden: Collection[str] = ()) -> Table:
    """Results as a table; `hidden` columns are left out of text, devices of one name get keys."""
    named = {(row["host"], row["device_name"]) for row in rows}
    shown = {"device"} if len({row["device"] for row in rows}) > len(named) else set()
    columns = [
        replace(column, hidden=column.key in hidden or (column.hidden and column.key not in shown))
        for column in COLUMNS
    ]
    return Table(columns=columns, rows=rows)


def rows_of(
    results: Iterable[ResultRow], made_of: Mapping[str, list[str]] = {}
) -> list[dict[str, Cell]]:
    """A row a job; the results of one job stand together, as queries give them.

    `made_of` are the git revisions of bundles by their hashes.
    """
    jobs = (list(of_job) for _, of_job in groupby(results, key=lambda row: row.job))
    return [_row(of_job) | {"made_of": made_of.get(of_job[0].bundle, [])} for of_job in jobs]


def _token_rate(case: str, timed: ResultRow | None) -> float | None:
    """Tokens a second, of a whole model."""
    tokens = tokens_of(case)
    return tokens / timed.seconds if tokens and timed and timed.seconds else None


def _row(results: list[ResultRow]) -> dict[str, Cell]:
    first = results[0]
    timed = {row.timing_name: row for row in results if row.metric}
    warnings = list(dict.fromkeys(word for row in results for word in row.warnings or ()))
    rated = timed.get("hot") or timed.get("cold")
    return {
        **vars(first),
        "case": first.case_name,
        "variant": first.variant_run or first.variant,
        "build": name_build(first.build or "", first.bundle) if first.program else "",
        "verdict": first.state,
        **_metric("hot", timed),
        **_metric("cold", timed),
        **{f"{name}_seconds": timed[name].seconds if name in timed else None for name in _OTHERS},
        "tokens_per_second": _token_rate(first.case_name, timed.get("hot")),
        "bytes_per_second": _scale_giga(rated.gb_per_second if rated else None),
        "flops_per_second": _scale_giga(rated.gflop_per_second if rated else None),
        "roof_fraction": rated.roof_fraction if rated else None,
        "path_fraction": rated.path_fraction if rated else None,
        "cold_roof_fraction": timed["cold"].roof_fraction if "cold" in timed else None,
        "remark": _remark(results, warnings),
        "warnings": warnings,
    }


def _metric(name: str, timed: Mapping[str, ResultRow]) -> dict[str, Cell]:
    row = timed.get(name)
    return {
        f"{name}_seconds": row and row.seconds,
        f"{name}_spread": row and spread(row),
        f"{name}_low_seconds": row and row.low,
        f"{name}_high_seconds": row and row.high,
        f"{name}_samples": row and row.count,
        f"{name}_series": row and row.series,
    }


def spread(timing: ResultRow) -> float | None:
    """Half the width of a median's interval, as a fraction of the median; one sample has none."""
    if not timing.seconds or timing.low is None or timing.high is None or (timing.count or 0) < 2:
        return None
    return (timing.high - timing.low) / 2 / timing.seconds


def _scale_giga(giga: float | None) -> float | None:
    return giga * 1e9 if giga else None


def _remark(results: Sequence[ResultRow], warnings: list[str]) -> str:
    first, words = results[0], " ".join(warnings)
    cause = f"{first.cause}: {first.reason}" if first.cause else first.reason
    flags = dict.fromkeys(row.flag for row in results if row.flag and row.flag not in words)
    return "; ".join(filter(None, (cause, *flags, *warnings)))


SAMPLES = (
    Column(key="job", heading="job", kind=ValueKind.ID),
    Column(key="metric", heading="metric"),
    Column(key="side", heading="side"),
    Column(key="seconds", heading="median", kind=ValueKind.SECONDS),
    Column(key="low", heading="low end of its interval", kind=ValueKind.SECONDS),
    Column(key="high", heading="high end of its interval", kind=ValueKind.SECONDS),
    Column(key="count", heading="samples", kind=ValueKind.COUNT),
    Column(key="launches", heading="launches in each sample", kind=ValueKind.COUNT),
    Column(key="samples", heading="seconds of one launch, in the order of measuring"),
)
