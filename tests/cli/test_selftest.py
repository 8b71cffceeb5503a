"""`vkbench selftest detector`: the targets hold, and a worse detector misses them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from vkbench_cli import main as cli
from vkbench_cli.commands.measure.selftest import COLUMNS
from vkbench_detection.statistics import pairs, screen, segments, selftest
from vkbench_detection.statistics.pairs import Look
from vkbench_detection.statistics.synthetic import KINDS

pytestmark = pytest.mark.slow

Captured = pytest.CaptureFixture[str]


def tried(capsys: Captured, *words: str) -> tuple[int, list[dict[str, Any]]]:
    code = cli.main(["selftest", "detector", "--json", *words])
    return code, json.loads(capsys.readouterr().out)["rows"]


def test_all_targets_are_met(capsys: Captured) -> None:
    code, rows = tried(capsys, "--streams", "60", "--seed", "1")
    assert [row for row in rows if row["verdict"] == "FAIL"] == []
    assert code == 0
    recalls = 2 * len(selftest.RECALLS) + len(selftest.HISTORY_WANTED)
    assert sum(row["verdict"] == "PASS" for row in rows) == 2 * len(KINDS) + recalls
    quiet = [row for row in rows if row["change"] is None and row["stage"] == "pairs"]
    assert [row["noise"] for row in quiet] == [noise.name for noise in KINDS]
    assert {row["count"] for row in quiet} == {15_000}
    changes = {(row["change"], row["direction"]) for row in rows if row["change"]}
    assert changes >= {(c, d) for c in (0.02, 0.03, 0.05, 0.1) for d in ("slower", "faster")}
    assert changes >= {(c, "either") for c in (0.03, 0.05, 0.1, 0.2)}


def test_a_pass_over_histories_that_ignores_jumps_fails(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: in a slow wave no levels differ, and a step of 20 % is lost."""
    monkeypatch.setattr(segments, "SOUGHT_P", 0.0)
    monkeypatch.setattr(segments, "DOUBTED_P", 0.0)
    monkeypatch.setattr(segments._Series, "moved_p", 0.0)
    code, rows = tried(capsys, "--streams", "10")
    assert code == 1
    failed = {
        (row["noise"], row["stage"], row["change"]) for row in rows if row["verdict"] == "FAIL"
    }
    assert ("wave 1 %", "history", 0.2) in failed


def test_a_detector_that_cries_wolf_fails(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "LOOKS", (Look(pairs=4, same_below=0.0, p=0.1),))
    code, rows = tried(capsys, "--streams", "4")
    assert code == 1
    failed = [row["noise"] for row in rows if row["verdict"] == "FAIL"]
    assert "spiky 2 %" in failed


def test_a_detector_that_sleeps_fails(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "JUMP_SIGMAS", 9.0)
    monkeypatch.setattr(screen, "DRIFT_SIGMAS", 3.9)
    code, rows = tried(capsys, "--streams", "4")
    assert code == 1
    failed = {(row["noise"], row["change"]) for row in rows if row["verdict"] == "FAIL"}
    assert ("gauss 2 %", 0.1) in failed


def test_the_table_is_for_people_too(capsys: Captured) -> None:
    assert cli.main(["selftest", "detector", "--streams", "1"]) in (0, 1)
    said = capsys.readouterr()
    heading = said.out.splitlines()[0]
    assert all(c.heading in heading for c in COLUMNS if not c.hidden)
    assert "PASS" in said.out
    assert "targets met" in said.err


def test_the_screen_alone_loads_no_numpy() -> None:
    code = "import sys, vkbench_detection.statistics.screen; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_loads_no_scipy_until_it_runs() -> None:
    code = (
        "import sys, vkbench_cli.commands.measure.selftest, vkbench_detection.statistics.segments, "
        "vkbench_detection.statistics.noise; "
        "sys.exit('scipy' in sys.modules or 'ruptures' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
