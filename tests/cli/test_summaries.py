"""Summaries of runs and regressions on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from commands import Captured, run_command
from vkbench_db.database import Database
from vkbench_db.upkeep import alerts

pytestmark = pytest.mark.usefixtures("filled")


def test_a_run_is_summed_up(capsys: Captured) -> None:
    text = run_command(capsys, "report", "run", "last", "--markdown")[0]
    assert text.startswith("### Run 2 (after): 1 wrong\n\n1 wrong, 2 passed\n")
    assert "| `mul_mat_vec/q8_0/m64_n1_k256` | Planted 9000 | wrong | NMSE 0.5" in text
    assert "Run 2 (after): 1 wrong" in run_command(capsys, "report", "run", "last")[0]


def test_nothing_is_said_where_nothing_changed(capsys: Captured) -> None:
    words = ("report", "run", "1", "--markdown")
    assert run_command(capsys, *words)[0] == "### Run 1 (before): no change\n\n3 passed\n"
    assert run_command(capsys, *words, "--only-on-change")[0] == ""
    assert run_command(capsys, "report", "run", "2", "--markdown", "--only-on-change")[0]


def test_a_regression_is_summed_up_and_its_alerts_are_shown(
    capsys: Captured, database: Database, planted_regression: Callable[..., int]
) -> None:
    number = planted_regression("252e5e39f6aa", "copy/f32/n4096", "a" * 64, "b" * 64)
    text = run_command(capsys, "regressions", "show", str(number), "--markdown")[0]
    assert text.startswith(f"### Regression {number}: copy is slower\n")
    assert "| `copy/f32/n4096 portable` | Planted 9000 | hot | 1.100 | 1.050 to 1.150 |" in text
    assert "| kernels | `aaaaaaaaaaaa` | `bbbbbbbbbbbb` |" in text

    with database.transaction() as tx:
        alerts.expect(tx, [(number, "open", "webhook")], 5.0, 5.0)
    (row,) = json.loads(run_command(capsys, "regressions", "show", str(number), "--json")[0])[
        "rows"
    ]
    assert row["alerts"][0]["channel"] == "webhook"
    assert "webhook" in run_command(capsys, "regressions", "show", str(number))[0]
