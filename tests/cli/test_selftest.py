"""`vkbench selftest detector`: the targets hold, and a worse detector misses them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from commands import Captured, run_command
from vkbench_cli import main as cli
from vkbench_cli.show.selftest import COLUMNS
from vkbench_detection.changes.decisions import Cause
from vkbench_detection.statistics import pairs, screen, segments, selftest
from vkbench_detection.statistics.pairs import Look
from vkbench_detection.statistics.synthetic import KINDS
from vkbench_local.selftest import trial
from vkbench_local.selftest.scenarios import BY_NAME
from vkbench_local.selftest.score import Answer, Outcome, Row, Score

pytestmark = pytest.mark.slow

# what is shown of scenarios in which something changes
OF_CHANGES = ("right_place", "right_cause", "right_state", "covered", "nights")


def tried(capsys: Captured, *words: str) -> tuple[int, list[dict[str, Any]]]:
    code = cli.main(["selftest", "detector", "--json", "--only", "noise", *words])
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


@pytest.mark.timeout(240)
def test_the_steps_of_the_scheduler_tell_causes_and_bundles(capsys: Captured) -> None:
    """The part of the simulated lab that every change of the detection has to pass."""
    chosen = [word for name in ("kernel steps", "driver returns") for word in ("--only", name)]
    words = ("selftest", "detector", "--json", "--series", "8", "--seed", "1", *chosen)
    rows = json.loads(run_command(capsys, *words)[0])["rows"]
    assert [row["target"] for row in rows] == ["", "", ""]
    assert [row["changes"] for row in rows] == [8, 24, 32]
    assert all(row["right_state"] == 1.0 for row in rows)


@pytest.mark.parametrize(
    ("right", "false", "missed"),
    [(16, 1, ""), (15, 0, ""), (12, 0, "right bundle"), (16, 4, "blamed on a kernel or driver")],
)
def test_a_scenario_misses_targets_beyond_chance_alone(right: int, false: int, missed: str) -> None:
    outcomes = [Outcome(answer=Answer.RIGHT if n < right else Answer.NOTHING) for n in range(16)]
    score = Score(outcomes=outcomes, false={Cause.ENVIRONMENT: false}, results=1360, pairs=1000)
    scenario = Row(name="", about="", score=score)
    assert any(words.startswith(missed) for words in scenario.missed) == bool(missed)
    is_strict = right < 16 or false > 0
    assert len(replace(scenario, is_whole=True).missed) >= 1 + is_strict


def test_a_part_that_there_is_not_is_refused(capsys: Captured) -> None:
    assert (
        "did you mean 'kernel steps'"
        in run_command(capsys, "selftest", "detector", "--only", "kernel step", code=2)[1]
    )


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


def test_the_table_is_for_people_too(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab of twenty nights, which is tried in this process, has all columns."""
    monkeypatch.setattr(trial, "usable_processors", lambda: 1)
    monkeypatch.setitem(BY_NAME, "A/A", replace(BY_NAME["A/A"], nights=20))
    words = ("--only", "noise", "--only", "A/A", "--streams", "1", "--series", "1")
    assert cli.main(["selftest", "detector", *words]) in (0, 1)
    printed = capsys.readouterr()
    headings = [line for line in printed.out.splitlines() if "tried" in line]
    assert [line.split("  ")[0] for line in headings] == [
        "noise of a job",
        "what happens in the lab",
    ]
    shown = [c.heading for c in COLUMNS if not c.hidden and c.key not in OF_CHANGES]
    assert all(heading in " ".join(headings) for heading in shown)
    assert "PASS" in printed.out
    assert "targets met" in printed.err


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
