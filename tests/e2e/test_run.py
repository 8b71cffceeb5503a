"""`vkbench run` on a real device: results, exchange, and ends in the middle."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from vkbench.settings import settings

Begin = Callable[..., subprocess.Popen[str]]
Vkbench = Callable[..., Any]

BRIEF = ("run", "--suite", "quick", "--seconds", "0.02")
LONG = (
    "run",
    "--kernel",
    "mul_mat_vec",
    "--format",
    "q4_0",
    "--mode",
    "correctness",
    "--repeat",
    "4",
)

ONCE = """
SELECT count(*) FROM job WHERE
  (SELECT count(*) FROM attempt WHERE job_id = job.id AND outcome = 'passed') <> 1
"""


def number(database: Path, sql: str) -> int:
    """One number from the database; 0 while it has no tables."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return int(connection.execute(sql).fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def until_some_passed(database: Path, child: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while number(database, "SELECT count(*) FROM job WHERE state = 'passed'") < 3:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < end, "nothing passed"
        time.sleep(0.02)


def test_a_run_ends_with_every_case_right_and_timed(vkbench: Vkbench, database: Path) -> None:
    database.unlink()  # the first run makes it
    ended = vkbench(*BRIEF, "--kernel", "copy", "--kernel", "DEQUANTIZE", "--json")
    assert ended.code == 0, ended.err
    assert {row["verdict"] for row in ended.rows} == {"passed"}
    assert {row["kernel"] for row in ended.rows} == {"copy", "dequantize"}
    timed = [row for row in ended.rows if row["mode"] == "performance"]
    assert timed
    for row in timed:
        assert 0 < row["hot_low_seconds"] <= row["hot_seconds"] <= row["hot_high_seconds"]
        assert row["cold_seconds"] > 0
        assert row["bytes_per_second"] > 0
    assert f"run 1: {len(ended.rows)} passed" in ended.err
    found = vkbench("results", "--suite", "quick", "--json").rows
    assert {row["job"] for row in found} == {row["job"] for row in ended.rows}
    ran = "SELECT count(*) FROM attempt JOIN bundle_blob ON bundle_blob.bundle = attempt.bundle"
    assert number(database, f"{ran} WHERE blob = kernel_sha") == len(ended.rows)  # it is kept


def test_results_travel_to_another_database(
    vkbench: Vkbench, database: Path, tmp_path: Path
) -> None:
    file, there = tmp_path / "run.jsonl", str(tmp_path / "there.db")
    ended = vkbench(*BRIEF, "--kernel", "copy", "--export", str(file), "--json")
    assert ended.code == 0, ended.err
    for words in (f"{len(ended.rows)} jobs new", "0 jobs new"):
        assert words in vkbench("import", str(file), "--database", there).out
    found = vkbench("results", "--run", "last", "--json", "--database", there).rows
    key = "case", "mode", "hot_seconds", "device", "environment"
    assert sorted([str([row[k] for k in key]) for row in found]) == sorted(
        [str([row[k] for k in key]) for row in ended.rows]
    )


@pytest.mark.timeout(300)
def test_kill_nine_loses_and_doubles_nothing(
    vkbench: Vkbench, begin: Begin, database: Path
) -> None:
    with begin(*LONG) as child:
        until_some_passed(database, child)
        child.kill()
    total = number(database, "SELECT count(*) FROM job")
    assert number(database, "SELECT count(*) FROM job WHERE state = 'passed'") < total
    ended = vkbench("run", "--resume", "last", "--json")
    assert ended.code == 0, ended.err
    assert len(ended.rows) == total
    assert number(database, ONCE) == 0
    again = vkbench("run", "--resume", "last")
    assert (again.code, again.err) == (7, "vkbench: run 1 has no unfinished jobs\n")


@pytest.mark.timeout(300)
def test_control_c_says_how_to_go_on(
    vkbench: Vkbench, begin: Begin, database: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.jsonl"
    with begin(*LONG, "--export", str(file)) as child:
        until_some_passed(database, child)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (130, "")
    assert err == "stopped; `vkbench run --resume 1` continues\n"
    assert (
        number(database, "SELECT count(*) FROM job WHERE state IN ('dispatched', 'running')") == 0
    )
    passed = number(database, "SELECT count(*) FROM job WHERE state = 'passed'")
    assert file.read_text().count('"outcome":"passed"') == passed
    ended = vkbench("run", "--resume", "1")
    assert ended.code == 0, ended.err
    assert number(database, ONCE) == 0


@pytest.mark.timeout(300)
def test_pipelines_of_a_short_run_are_kept(vkbench: Vkbench, tmp_path: Path) -> None:
    assert vkbench("run", "--case", "add/f32/b1_c1_h2_w64", VKBENCH_CACHE=str(tmp_path)).code == 0
    assert list(tmp_path.glob("pipelines/*.bin"))


def test_a_run_stops_when_its_time_is_over_and_goes_on(
    vkbench: Vkbench, database: Path, tmp_path: Path
) -> None:
    file, there = tmp_path / "run.jsonl", tmp_path / "there.db"
    ended = vkbench(*LONG, "--repeat", "400", "--stop-after", "8", "--export", str(file), "--json")
    assert ended.code == 0, ended.err
    total, passed = (
        number(database, f"SELECT count(*) FROM job {which}")
        for which in ("", "WHERE state = 'passed'")
    )
    assert 0 < len(ended.rows) == passed < total
    assert f"run 1: {passed} passed\n" in ended.err
    assert "stopped; `vkbench run --resume 1` continues\n" in ended.err
    assert vkbench("import", str(file), "--database", str(there)).code == 0
    assert number(there, "SELECT count(*) FROM job WHERE state = 'passed'") == passed
    assert vkbench("run", "--resume", "1", "--stop-after", "0").code == 0  # of what ran
    assert number(database, "SELECT count(*) FROM job WHERE state = 'passed'") == passed


def test_time_that_is_over_at_once_leaves_all_jobs(vkbench: Vkbench, database: Path) -> None:
    ended = vkbench(*BRIEF, "--stop-after", "0")
    assert (ended.code, ended.out) == (7, ""), ended.err
    assert "run 1: no job ended\n" in ended.err
    assert "`vkbench run --resume 1` continues" in ended.err


def test_time_enough_changes_nothing(vkbench: Vkbench) -> None:
    ended = vkbench(*BRIEF, "--kernel", "copy", "--stop-after", "1000")
    assert ended.code == 0, ended.err
    assert "continues" not in ended.err


def test_a_second_run_is_refused_while_one_is_busy(
    vkbench: Vkbench, begin: Begin, database: Path
) -> None:
    with begin(*LONG) as child:
        until_some_passed(database, child)
        second = vkbench("run")
        child.kill()
    assert second.code == 4
    assert f"(process {child.pid}) uses {database}" in second.err


def test_no_device_is_one_line(vkbench: Vkbench, database: Path) -> None:
    for words in (["run"], ["devices", "--local"]):
        ended = vkbench(*words, VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="")
        assert (ended.code, ended.out) == (7, "")  # nothing ran
        assert ended.err.startswith("vkbench: ")
        assert ended.err.count("\n") == 1
    assert number(database, "SELECT count(*) FROM run") == 0


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["--kernel", "mulmat_vec"], 2, "did you mean 'mul_mat_vec'"),
        (["--format", "q4_O"], 2, "'q4_0'"),
        (["--device", "lavapip"], 2, "unknown device 'lavapip'"),
        (["--shape", "m=-1"], 2, "malformed shape 'm=-1'"),
        (["--shape", "z=5"], 7, "z=5"),
        (["--variant", "portabel", "-k", "copy"], 2, "did you mean 'portable'?"),
        (["--suite", "quik"], 2, "did you mean 'quick' or 'models-quick'?"),
        (["--bundle", "abcdef"], 2, "unknown bundle 'abcdef'"),
        (["--resume", "99"], 2, "unknown run '99'"),
        (["--resume", "1", "--kernel", "copy"], 2, "leave out the options that choose cases"),
        (["--export", "/nonexistent/x"], 2, "there is no folder /nonexistent"),
        (["--database", "postgresql://127.0.0.1:1/x"], 2, "vkbench submit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_stores_no_run(
    asked: Vkbench, database: Path, words: list[str], code: int, hint: str
) -> None:
    ended = asked("run", *words)
    assert (ended.code, ended.out, hint in ended.err) == (code, "", True), ended.err
    assert ended.err.count("\n") == 1
    assert number(database, "SELECT count(*) FROM run") == 0


@pytest.mark.usefixtures("nothing_ran")
def test_devices_are_those_of_this_machine_while_nothing_is_recorded(vkbench: Vkbench) -> None:
    ended = vkbench("devices", "--json")
    assert ended.code == 0, ended.err
    assert ended.rows == vkbench("devices", "--local", "--json").rows
    assert {row["state"] for row in ended.rows} == {"found here"}
    assert "no device is recorded yet" in ended.err
    assert not list(settings().data.rglob("*.db"))


def test_a_corrupt_bundle_is_one_line_and_stores_no_run(
    vkbench: Vkbench, database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from vkbench_shaders.bundle import BundleStore, packaged

    monkeypatch.setenv("VKBENCH_CACHE", str(tmp_path))
    whole = packaged()
    altered = whole.text.replace('"version":2', '"version":2 ')  # another bundle, same kernels
    assert altered != whole.text
    store = BundleStore(tmp_path / "bundles")
    kept = type(whole)(text=altered, blobs=whole.blobs)
    store.put(kept)
    blob = next((store.folder / kept.sha).glob("*.spv"))
    blob.write_bytes(blob.read_bytes()[:-4])
    ended = vkbench("run", "--bundle", kept.sha[:12])
    assert (ended.code, ended.err.count("\n")) == (4, 1)
    assert "not what its hash says" in ended.err
    assert number(database, "SELECT count(*) FROM run") == 0


def test_compiling_has_a_series_and_tells_what_was_made(vkbench: Vkbench) -> None:
    case = "add/f32/b1_c1_h8_w64"
    ended = vkbench("run", "--case", case, "--property", "compile", "--json")
    assert ended.code == 0, ended.err
    [row] = ended.rows
    assert (row["case"], row["mode"], row["verdict"]) == (case, "compile", "passed")
    assert row["compile_seconds"] > row["submit_seconds"] > 0
    assert (row["hot_seconds"], row["roof_fraction"]) == (None, None)
    placed = vkbench("query", "SELECT series FROM v_results WHERE metric = 'compile'", "--json")
    assert [row["series"] for row in placed.rows] == [1]
    told = vkbench("results", "--statistics", "--json")
    assert {(row["name"], row["unit"]) for row in told.rows} >= {
        ("files of the driver", "bytes"),
        ("energy of a launch", "J"),
    }
    assert vkbench("query", "SELECT * FROM change_point", "--json").rows == []
