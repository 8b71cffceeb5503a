"""The reading commands over a database with two runs: what people see and what programs get."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import pytest

from commands import Captured, read_rows, run_command
from planted_runs import Past
from vkbench.process.user import user_name
from vkbench_cli import main as cli
from vkbench_cli.show import progress
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import beat

pytestmark = pytest.mark.usefixtures("filled")


def refused(capsys: Captured, *words: str) -> tuple[int, str]:
    """Exit code and the one line of a command that fails."""
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vkbench: ")
    assert err.count("\n") == 1
    return code, err


def test_an_export_says_how_far_it_is(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "SILENCE_SECONDS", 0.0)
    assert (
        "export of run 1: 1 of "
        in run_command(capsys, "export", "1", "-o", str(tmp_path / "run.jsonl"))[1]
    )


def test_results_are_the_latest_of_each_case(capsys: Captured) -> None:
    results = read_rows(capsys, "results")
    assert {row["case"]: row["verdict"] for row in results} == {
        "copy/f32/n4096": "passed",
        "mul_mat_vec/q4_0/m64_n1_k256": "passed",
        "mul_mat_vec/q8_0/m64_n1_k256": "wrong",
    }
    copy = next(row for row in results if row["kernel"] == "copy")
    assert copy["hot_seconds"] == pytest.approx(2e-3)
    assert copy["hot_spread"] == pytest.approx(0.01)
    assert copy["bytes_per_second"] == pytest.approx(10_000 / 2e-3)
    assert copy["flops_per_second"] is None
    assert copy["device"] == "252e5e39f6aa"
    assert copy["finished_at"].endswith("+00:00")


def test_trials_of_sweeps_are_left_out_unless_asked_for(past: Past, capsys: Captured) -> None:
    sweep = past.sweep(past.done(0.5), past.done(0.5), past.done(0.5))

    def copies(*words: str) -> tuple[list[float], str]:
        out, err = run_command(capsys, "results", "--kernel", "copy", *words, "--json")
        return [row["hot_seconds"] for row in json.loads(out)["rows"]], err

    note = "left out 1 trial of `vkbench tune`; --trials shows them\n"
    assert copies() == ([2e-3], note)
    assert copies("--history") == ([2e-3, 1e-3], note)
    assert copies("--shape", "n=4096", "--kernel", "*")[0][0] == 2e-3
    assert copies("--shape", "n=7") == ([], "nothing to show\n")
    assert copies("--trials") == ([0.5], "")
    assert copies("--trials", "--history") == ([0.5, 2e-3, 1e-3], "")
    assert copies("--run", str(sweep)) == ([0.5], "")
    assert copies("--run", "last") == ([2e-3], "")  # the last run of work


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--history"], 6),
        (["--run", "1"], 3),
        (["--run", "before"], 3),
        (["--run", "last", "--state", "WRONG"], 1),
        (["--kernel", "MUL*"], 2),
        (["--kernel", "copy", "--kernel", "*"], 3),
        (["--format", "Q4_0", "--format", "q8_0"], 2),
        (["--shape", "m=64"], 2),
        (["--shape", "n=4096"], 1),
        (["--shape", "n=7"], 0),
        (["--device", "planted"], 3),
        (["--device", "*"], 3),
        (["--mode", "correctness"], 0),
        (["--suite", "QUICK"], 0),  # has other shapes
        (["--history", "--limit", "2"], 2),
        (["--series", "1"], 0),  # nothing is placed yet
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_results_are_filtered(words: list[str], count: int, capsys: Captured) -> None:
    assert len(read_rows(capsys, "results", *words)) == count


def test_results_as_text_say_what_all_rows_share_once(capsys: Captured) -> None:
    lines = run_command(capsys, "results", "--run", "2")[0].splitlines()
    assert lines[:2] == ["host: here", "device: Planted 9000"]
    assert lines[2].split()[:4] == ["case", "variant", "verdict", "nmse"]
    assert "NMSE 0.5 is over 1e-10" in "\n".join(lines)
    assert len(lines) == 6
    assert "made of" not in run_command(capsys, "results", "--run", "2", "--wide")[0]


def test_json_and_csv_exclude_each_other(capsys: Captured) -> None:
    out, err = run_command(capsys, "results", "--json", "--csv", code=2)
    assert (out, err) == (
        "",
        "vkbench: only one of --json and --csv can be printed\n",
    )


def test_results_as_csv_have_base_units(capsys: Captured) -> None:
    results = list(csv.DictReader(io.StringIO(run_command(capsys, "results", "--csv")[0])))
    assert sorted(float(row["hot_seconds"]) for row in results if row["hot_seconds"]) == [
        2e-6,
        2e-3,
    ]


def test_cut_off_results_say_so(capsys: Captured) -> None:
    for form in ([], ["--as", "md"], ["--as", "junit"]):
        assert (
            "the newest 1; --limit 0 shows all"
            in run_command(capsys, "results", "--limit", "1", *form)[1]
        )


def test_jobs_lists_runs_and_jobs(capsys: Captured) -> None:
    assert [(row["id"], row["label"], row["passed"]) for row in read_rows(capsys, "jobs")] == [
        (2, "after", 2),
        (1, "before", 3),
    ]
    [wrong] = read_rows(capsys, "jobs", "last", "--state", "wrong")
    assert wrong["case"] == "mul_mat_vec/q8_0/m64_n1_k256"
    assert len(read_rows(capsys, "jobs", "--device", "planted")) == 6


def test_cut_off_jobs_say_which_are_shown(capsys: Captured) -> None:
    assert (
        "the first 1; --limit 0 shows all" in run_command(capsys, "jobs", "last", "--limit", "1")[1]
    )
    assert (
        "the newest 1; --limit 0 shows all"
        in run_command(capsys, "jobs", "--device", "planted", "--limit", "1")[1]
    )
    assert "--limit 0" not in run_command(capsys, "jobs", "last", "--limit", "3")[1]


def test_devices_have_a_state_and_a_queue(capsys: Captured) -> None:
    [device] = read_rows(capsys, "devices")
    assert (device["state"], device["queued"], device["name"]) == ("online", 0, "Planted 9000")
    run_command(capsys, "pause", "planted")
    assert read_rows(capsys, "devices")[0]["state"] == "paused"
    run_command(capsys, "resume", "252e5e39f6aa")
    assert read_rows(capsys, "devices")[0]["state"] == "online"


def test_a_pause_says_why_who_and_since_when(capsys: Captured) -> None:
    assert (
        "Planted 9000 (252e5e39f6aa) is paused"
        in run_command(capsys, "pause", "host:here", "--reason", "new fan")[0]
    )
    [device] = read_rows(capsys, "devices")
    assert (device["paused_reason"], device["paused_by"]) == ("new fan", user_name())
    assert isinstance(device["paused_at"], str)
    assert "new fan" in run_command(capsys, "devices")[0]
    run_command(capsys, "resume", "planted")
    [device] = read_rows(capsys, "devices")
    assert [device[key] for key in ("paused_reason", "paused_by", "paused_at")] == ["", "", None]


def test_query_reads_the_views(capsys: Captured) -> None:
    sql = "SELECT case_name, count(*) AS n, 1 AS n FROM v_latest GROUP BY 1 ORDER BY 1"
    answer = read_rows(capsys, "query", sql)
    assert answer[0] == {"case_name": "copy/f32/n4096", "n": 2, "n_2": 1}


@pytest.mark.parametrize("sql", ["DELETE FROM job", "ATTACH 'x' AS y", "SELECT 1; SELECT 2", ""])
def test_query_cannot_write(sql: str, capsys: Captured) -> None:
    assert refused(capsys, "query", sql)[0] == 2


def test_cancel_leaves_what_is_done(capsys: Captured) -> None:
    assert "0 jobs cancelled" in run_command(capsys, "cancel", "last")[0]


def test_a_run_travels_and_arrives_once(tmp_path: Path, capsys: Captured) -> None:
    file, there = tmp_path / "run.jsonl", ["--database", str(tmp_path / "there.db")]
    run_command(capsys, "export", "last", "-o", str(file))
    assert "3 jobs new" in run_command(capsys, "import", str(file), *there)[0]
    before = read_rows(capsys, "results", *there)
    assert "0 jobs new" in run_command(capsys, "import", str(file), *there)[0]
    assert read_rows(capsys, "results", *there) == before
    assert len(before) == 3


def test_a_damaged_import_changes_nothing(tmp_path: Path, capsys: Captured) -> None:
    file, there = tmp_path / "run.jsonl", ["--database", str(tmp_path / "there.db")]
    run_command(capsys, "export", "1", "-o", str(file))
    file.write_bytes(file.read_bytes()[:-200])
    assert refused(capsys, "import", str(file), *there)[0] == 2
    assert read_rows(capsys, "jobs", *there) == []


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["results", "--kernel", "copi"], 2, "did you mean 'copy'"),
        (["results", "--format", "q4_1"], 2, "'q4_0'"),
        (["results", "--device", "Plantd 9000"], 2, "did you mean 'Planted 9000'?"),
        (["results", "--run", "befor"], 2, "did you mean 'before'?"),
        (["results", "--shape", "m=x"], 2, "malformed shape 'm=x'"),
        (["results", "--state", "pased"], 2, "did you mean 'passed'"),
        (["jobs", "99"], 2, "unknown run '99'"),
        (["pause", "nothing"], 2, "unknown device 'nothing'"),
        (["export", "1", "-o", "/nonexistent/x"], 2, "there is no folder /nonexistent"),
        (["import", "/nonexistent"], 2, "cannot read /nonexistent"),
        (["results", "--database", "/nonexistent/x.db"], 8, "vkbench db upgrade"),
        (["results", "--database", "mysql://x/y"], 2, "sqlite:///path/to/file"),
        (["results", "--database", "postgresql://u:secret@127.0.0.1:1/x"], 8, "127.0.0.1"),
        (["submit", "--device", "nothing"], 2, "unknown device 'nothing'"),
        (["submit", "--kernel", "copi"], 2, "did you mean 'copy'"),
        (["submit", "--suite", "quik"], 2, "did you mean 'quick' or 'models-quick'?"),
        (["submit", "--bundle", "abcd"], 2, "unknown bundle 'abcd'"),
        (["submit", "--variant", "portabel", "-k", "copy"], 2, "did you mean 'portable'?"),
        (["compare", "1", "99"], 2, "unknown run or baseline '99'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(words: list[str], code: int, hint: str, capsys: Captured) -> None:
    status, line = refused(capsys, *words)
    assert (status, hint in line) == (code, True), line
    assert "secret" not in line


def test_submit_prints_the_run_and_stores_its_jobs(capsys: Captured, filled: Database) -> None:
    run = run_command(capsys, "submit", "-k", "copy", "-f", "f16", "-s", "n=64", "--repeat", "3")[
        0
    ].strip()
    jobs = read_rows(capsys, "jobs", run)
    assert [row["state"] for row in jobs] == ["queued"] * len(jobs)
    assert len(jobs) == 6  # checked and timed
    assert f"{len(jobs)} jobs cancelled" in run_command(capsys, "cancel", run)[0]


def test_submit_with_a_key_is_there_once(capsys: Captured) -> None:
    words = ["submit", "-k", "copy", "--key", "nightly"]
    assert run_command(capsys, *words)[0] == run_command(capsys, *words)[0]


def test_waiting_ends_in_time_and_the_jobs_go_on(capsys: Captured, filled: Database) -> None:
    with filled.transaction() as tx:
        beat(tx, "here:1", time.time())  # or it says that no scheduler is there
    words = ["submit", "-k", "copy", "-s", "n=64", "--wait", "--timeout", "0.1"]
    code, line = refused(capsys, *words)
    assert (code, "they continue" in line) == (5, True)
    assert read_rows(capsys, "jobs", "last", "--state", "queued")


def test_waiting_for_what_is_done_ends_with_its_exit_code(capsys: Captured) -> None:
    words = ["submit", "-k", "copy", "--key", "k"]
    run = run_command(capsys, *words)[0].strip()
    run_command(capsys, "cancel", run)
    assert cli.main([*words, "--wait"]) == 7
