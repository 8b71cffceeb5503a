"""`vkbench watch`, and what else waits: live on a terminal, lines elsewhere, Ctrl-C detaches."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from commands import Captured, run_command
from planted_runs import CASES, Past
from terminals import typed_into
from vkbench.job import JobState, Mode, PlannedJob
from vkbench.result import Result
from vkbench_cli import main as cli
from vkbench_cli.show import progress, waiting
from vkbench_db.upkeep.attendance import beat
from vkbench_db.work import store

CODE = "import sys; from vkbench_cli.main import main; sys.exit(main(sys.argv[1:]))"
VKBENCH = [sys.executable, "-c", CODE]
CTRL_C = b"\x03"


@pytest.fixture
def lab(past: Past) -> Past:
    """The planted lab with a scheduler and its worker."""
    with past.database.transaction() as tx:
        beat(tx, "here:1", time.time())
    return past


def queued(lab: Past) -> int:
    """A run of queued jobs: no worker has begun one."""
    planned = [
        PlannedJob(device=lab.device.key, case=case, mode=Mode.PERFORMANCE) for case in CASES
    ]
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=time.time())
        store.add_jobs(tx, run.id, planned)
    return run.id


@contextmanager
def worked_on(lab: Past, end: Result, looks: threading.Semaphore | None = None) -> Iterator[None]:
    """A worker ends the jobs that wait, one after the other, while the block runs.

    With the looks of who watches, each end is seen before the next.
    """

    def work() -> None:
        for _ in CASES:
            if looks:
                while looks.acquire(blocking=False):
                    pass
                for _ in range(2):  # the first may have begun before the job ended
                    assert looks.acquire(timeout=60)
            else:
                time.sleep(0.25)
            with lab.database.transaction() as tx:
                [picked] = store.pick(tx, lab.device.key, 1, time.time())
                job = picked.job
                ended = replace(end, job=job.id, token=job.token, case=job.case)
                store.record(tx, [ended], time.time())

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        worker.join()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Looks and lines come without waiting; each look is counted."""
    counted, see = threading.Semaphore(0), progress.Progress.see

    def count(view: progress.Progress) -> Any:
        lanes = see(view)
        counted.release()
        return lanes

    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(progress, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress.Progress, "see", count)
    return counted


def test_a_run_is_watched_until_it_ends_and_its_results_are_shown(
    lab: Past, looks: threading.Semaphore, capsys: Captured
) -> None:
    run = queued(lab)
    with worked_on(lab, lab.done(1e-3), looks):
        assert cli.main(["watch", str(run), "--json"]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["rows"]) == len(CASES)
    lines = printed.err.splitlines()
    assert any(re.match(rf"run {run}: [12] of 3 done, \d.*, 0:0\d left", line) for line in lines)
    assert lines[-1] == f"run {run}: 3 passed"


def test_wrong_results_are_counted_and_decide_the_exit_code(
    lab: Past, looks: threading.Semaphore, capsys: Captured
) -> None:
    run = queued(lab)
    with worked_on(lab, lab.wrong("NMSE 0.5 is over 1e-10"), looks):
        assert cli.main(["watch", "last"]) == 3
    assert f"run {run}: 2 of 3 done, 2 wrong" in capsys.readouterr().err


def test_all_shows_the_checks_that_a_watched_run_counts(lab: Past, capsys: Captured) -> None:
    timed = lab.done(1e-3)
    check = replace(timed, timings=())
    run = str(lab.run("", timed, check, check))
    for words, rows, end in (
        ((), 1, "3 passed (2 passed checks not shown: --all)"),
        (("--all",), 3, "3 passed"),
    ):
        out, err = run_command(capsys, "watch", run, *words)
        assert out.count("  passed  ") == rows
        assert err.splitlines()[-1] == f"run {run}: {end}"


def test_the_fleet_is_watched_until_nothing_is_left(
    lab: Past, looks: threading.Semaphore, capsys: Captured
) -> None:
    queued(lab)
    with worked_on(lab, lab.done(1e-3), looks):
        assert cli.main(["watch"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("fleet: 2 of 3 done") for line in lines)
    assert lines[-1] == "fleet: 3 jobs ended"


def test_an_idle_fleet_is_no_error(lab: Past, capsys: Captured) -> None:
    assert "`vkbench submit`" in run_command(capsys, "watch")[1]


def test_watching_ends_in_time_and_says_how_to_come_back(lab: Past, capsys: Captured) -> None:
    run = queued(lab)
    notes = run_command(capsys, "watch", str(run), "--timeout", "0", code=5)[1]
    assert f"3 of 3 jobs are unfinished after 0 s; they continue: `vkbench watch {run}`" in notes
    assert cli.main(["watch", "--timeout", "0"]) == 5


def test_an_unknown_run_is_named(lab: Past, capsys: Captured) -> None:
    assert "unknown run 'nightly'" in run_command(capsys, "watch", "nightly", code=2)[1]


@pytest.mark.parametrize("words", [["submit", "-k", "copy", "-s", "n=64", "--wait"], ["watch"]])
def test_ctrl_c_ends_the_waiting_and_not_the_work(lab: Past, words: list[str]) -> None:
    queued(lab)
    code, shown = typed_into([*VKBENCH, *words], after="Planted 9000", key=CTRL_C)
    assert code == 130
    assert "Traceback" not in shown
    assert "\x1b[?25h" in shown  # the cursor is visible again
    with lab.database.reading() as tx:
        assert not store.run_progress(tx, 3).counts.get(JobState.CANCELLED)
    if words[0] == "submit":
        assert "run 4 continues; `vkbench watch 4` comes back to it" in shown


def test_a_terminal_shows_a_bar_of_each_device(lab: Past) -> None:
    queued(lab)
    _, shown = typed_into([*VKBENCH, "watch"], after="0/3", key=CTRL_C)
    assert "fleet: 0 of 3 done" in shown
    assert "Planted 9000" in shown
