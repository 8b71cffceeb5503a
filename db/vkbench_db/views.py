"""The public views, as queries read them; the migrations make them."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Float, Integer, MetaData, Table, Text

from vkbench_db.moment import Moment

_TEXTS = (
    *("host", "device", "device_name", "driver", "driver_version", "environment"),
    *("case_name", "kernel", "format", "types", "shape", "params", "mode", "variant"),
    *("variant_run", "kernel_sha", "bundle", "run_uuid", "run_label"),
    *("state", "cause", "reason", "path", "metric", "stop"),
)
_NUMBERS = (
    *("nmse", "max_abs", "seconds", "mad", "low", "high", "best"),
    *("gb_per_second", "gflop_per_second"),
)


def _view(name: str) -> Table:
    return Table(
        name,
        MetaData(),
        *(Column(text, Text) for text in _TEXTS),
        *(Column(number, Float) for number in _NUMBERS),
        *(Column(whole, Integer) for whole in ("run", "tries", "count")),
        Column("job", BigInteger),
        Column("warnings", JSON),
        Column("finished_at", Moment),
    )


RESULTS = _view("v_results")
LATEST = _view("v_latest")
