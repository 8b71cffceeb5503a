"""`vkbench import` of a lab's history, and what `vkbench regressions` says of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from commands import read_rows, run_command
from planted_history import Plan, Step, case_name, device, file_lines
from planted_history import planted as planted_plan
from vkbench.settings import Settings
from vkbench_cli.main import main

STEPS = (
    Step(case=0, run=25, factor=1.1, cause="kernel"),
    Step(case=1, run=30, factor=0.9, cause="environment"),
    Step(case=2, run=38, factor=0.0, cause="kernel"),
    Step(case=3, run=36, factor=-1.0, cause="environment"),
)
PLAN = Plan(cases=4, runs=40, steps=STEPS)


@pytest.fixture
def history(planted: Settings, tmp_path: Path) -> Path:
    """A database with a lab's history in it."""
    file = tmp_path / "history.jsonl"
    file.write_text("".join(file_lines(PLAN)))
    assert main(["import", str(file)]) == 0
    return file


def test_import_says_that_there_is_something(
    planted: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("".join(file_lines(PLAN)))
    assert "new in `vkbench regressions ls`: 4" in run_command(capsys, "import", str(file))[0]
    assert "regressions" not in run_command(capsys, "import", str(file))[0]


def test_the_list(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read_rows(capsys, "regressions", "ls")
    assert {(row["direction"], row["cause"], row["changes"]) for row in rows} == {
        ("slower", "kernel", 2),  # hot and cold
        ("faster", "environment", 2),
        ("wrong", "kernel", 1),
        ("failed", "environment", 1),
    }
    assert {row["state"] for row in rows} == {"open"}
    order = [row["direction"] for row in rows]
    assert order == ["wrong", "failed", "slower", "faster"]
    assert main(["regressions", "close", str(rows[0]["id"])]) == 0
    capsys.readouterr()
    every = read_rows(capsys, "regressions", "ls", "--all")
    assert [row["direction"] for row in every] == [*order[1:], "wrong"]
    out, notes = run_command(capsys, "regressions", "ls", "--limit", "1")
    assert " wrong on " not in out  # it is closed
    assert "the worst 1; --limit 0 shows all" in notes


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--direction", "slower", "--direction", "wrong"], 2),
        (["--state", "closed"], 0),
        (["--direction", "failed"], 1),
        (["--all"], 4),
        (["--device", "lab0"], 4),
    ],
)
def test_filters(
    history: Path, capsys: pytest.CaptureFixture[str], words: list[str], count: int
) -> None:
    assert len(read_rows(capsys, "regressions", "ls", *words)) == count


def test_one_of_them(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = read_rows(capsys, "regressions", "ls", "--direction", "slower")
    [story] = read_rows(capsys, "regressions", "show", str(row["id"]))
    member = story["members"][0]
    assert (member["case_name"], member["metric"]) == (case_name(0), "cold")
    assert 1.05 < member["low"] < member["ratio"] < member["high"] < 1.15
    assert member["p"] < 1e-4
    assert member["before_kernel"] != member["after_kernel"]
    assert member["before_driver"] == member["after_driver"] == "planted 550.0"
    assert member["evidence"] == "by history, not measured again"
    assert [event["state"] for event in story["events"]] == ["open"]
    main(["regressions", "show", str(row["id"])])
    text = capsys.readouterr().out
    assert "cause: kernel" in text
    assert f"device: {device(0).name}" in text


def test_one_that_crashes(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = read_rows(capsys, "regressions", "ls", "--direction", "failed")
    assert " failed on Planted 9000 of " in row["title"]
    assert " since driver 550.2 (" in row["title"]
    [story] = read_rows(capsys, "regressions", "show", str(row["id"]))
    [member] = story["members"]
    assert (member["case_name"], member["metric"], member["ratio"]) == (
        *(case_name(3), "verdict", None),
    )
    assert (member["before_driver"], member["after_driver"]) == ("planted 550.1", "planted 550.2")
    assert member["evidence"] == "3 tries crashed: SIGSEGV"
    main(["regressions", "show", str(row["id"]), "--markdown"])
    assert "| failed |" in capsys.readouterr().out


def test_people_move_them(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = read_rows(capsys, "regressions", "ls", "--direction", "slower")
    number = str(row["id"])
    assert main(["regressions", "ack", number, "--note", "looking"]) == 0
    capsys.readouterr()
    assert (
        f"regression {number} is acknowledged already"
        in run_command(capsys, "regressions", "ack", number, code=2)[1]
    )
    assert main(["regressions", "close", number]) == 0
    assert main(["regressions", "reopen", number]) == 0
    [story] = read_rows(capsys, "regressions", "show", number)
    states = [event["state"] for event in story["events"]]
    assert states == ["open", "acknowledged", "closed", "open"]
    assert story["events"][1]["note"] == "looking"
    assert main(["regressions", "show", "999"]) == 2


def test_exit_codes(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regressions", "ls"]) == 0
    assert main(["regressions", "ls", "--fail-on", "open"]) == 1
    assert main(["regressions", "ls", "--fail-on", "open", "--direction", "faster"]) == 0
    for direction in ("slower", "wrong", "failed"):
        assert main(["regressions", "ls", "--fail-on", "open"]) == 1
        [row] = read_rows(capsys, "regressions", "ls", "--direction", direction)
        assert main(["regressions", "ack", str(row["id"])]) == 0
    assert main(["regressions", "ls", "--fail-on", "open"]) == 0


def test_twice_is_once(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_rows(capsys, "regressions", "ls")
    assert main(["import", str(history)]) == 0
    assert "0 changes are new" in run_command(capsys, "regressions", "scan", "--all")[0]
    assert read_rows(capsys, "regressions", "ls") == before


@pytest.mark.slow
def test_a_lab_of_two_hundred_series_takes_seconds(
    planted: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the planted changes and no other, from a file to verdicts."""
    plan = planted_lab()
    file = tmp_path / "lab.jsonl"
    file.write_text("".join(file_lines(plan)))
    began = time.process_time()
    assert main(["import", str(file)]) == 0
    rows = read_rows(capsys, "regressions", "ls")
    assert time.process_time() - began < 120
    members = [
        member
        for row in rows
        for member in read_rows(capsys, "regressions", "show", str(row["id"]))[0]["members"]
    ]
    changed = {
        (m["case_name"], m["metric"], "slower" if m["ratio"] > 1 else "faster") for m in members
    }
    assert changed == {
        (case_name(step.case), metric, "slower" if step.factor > 1 else "faster")
        for step in plan.steps
        for metric in plan.metrics
    }
    assert len(members) == len(changed)


def planted_lab() -> Plan:
    return planted_plan(100, 120)
