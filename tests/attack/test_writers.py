"""Writers at one database: whoever writes much or long makes no other fail, and none wait long."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread, Timer

import pytest
from sqlalchemy import func, select

from databases import NOW, Lab, one_engine
from vkbench.errors import ServiceUnreachable
from vkbench.job import JobState
from vkbench_cli.main import main
from vkbench_db import schema, waiting
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.arrivals import PART_JOBS
from vkbench_scheduler.bundles import keep_packaged
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit

VKBENCH = Path(sys.executable).with_name("vkbench")
PARTS = 6
MANY = PARTS * PART_JOBS
HELD_SECONDS = 1.0
CASE = "add/f32/b1_c1_h1_w5"
COMMANDS = {
    "pause": ["pause", "{device}"],
    "resume": ["resume", "{device}"],
    "cancel": ["cancel", "1"],
    "submit": ["submit", "--case", CASE],
    "import": ["import", "{folder}/run.jsonl"],
    "a schedule": ["schedule", "add", "n", "--cron", "0 0 * * *", "--case", CASE],
    "a baseline": ["baseline", "set", "b", "--run", "1"],
    "db upgrade": ["db", "upgrade"],
    "db prune": ["db", "prune", "--older-than", "1d"],
}


@contextmanager
def held(lab: Lab, seconds: float) -> Iterator[None]:
    """Another writer of the file, in the middle of a transaction of so many seconds."""
    connection = sqlite3.connect(
        str(lab.database.engine.url.database), isolation_level=None, check_same_thread=False
    )
    connection.execute("BEGIN IMMEDIATE")
    timer = Timer(seconds, connection.close)
    timer.start()
    yield
    timer.join()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own wait for a writer ends early, and commands soon say that they wait."""
    monkeypatch.setattr("vkbench_db.database.BUSY_SECONDS", 0.1)
    monkeypatch.setattr("vkbench_db.waiting.SILENT_SECONDS", 0.1)


@one_engine
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_waits_for_a_long_writer_and_says_so(
    lab: Lab, url: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = lab.add_device()
    run = lab.submit(device, 1)
    assert main(["export", str(run), "-o", str(tmp_path / "run.jsonl"), "--database", url]) == 0
    asked = [word.format(folder=tmp_path, device=device) for word in words]
    with held(lab, HELD_SECONDS):
        assert main([*asked, "--database", url]) == 0
    assert capsys.readouterr().err.count(waiting.SENTENCE) == 1


@one_engine
@pytest.mark.usefixtures("impatient")
def test_a_writer_that_does_not_end_is_waited_for_so_long(
    lab: Lab, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vkbench_db.waiting.COMMAND_SECONDS", 0.3)
    device = lab.add_device()
    with held(lab, HELD_SECONDS):
        assert main(["pause", device, "--database", url]) == ServiceUnreachable.exit_code
    assert "another process writes to it and does not end" in capsys.readouterr().err


@one_engine
def test_a_restored_backup_is_read_beside_a_writer(lab: Lab, tmp_path: Path) -> None:
    """`VACUUM INTO` makes a file whose writers keep readers out."""
    backup = tmp_path / "backup.db"
    with closing(sqlite3.connect(str(lab.database.engine.url.database))) as connection:
        connection.execute(f"VACUUM INTO '{backup}'")
    with Database.open(f"sqlite:///{backup}") as restored:
        lab = Lab(restored)
        lab.add_device()
        with closing(sqlite3.connect(backup, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM device").fetchall()
            lab.add_device("another")


@contextmanager
def submitting(lab: Lab, url: str, jobs: int) -> Iterator[subprocess.Popen[bytes]]:
    """A `vkbench submit` of so many jobs, from when the first of them are stored."""
    known = counted_states(lab).total()
    words = ["submit", "--case", CASE, "--mode", "correctness", "--repeat", str(jobs)]
    command = [str(VKBENCH), *words, "--key", "night", "--database", url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        while counted_states(lab).total() == known:
            assert child.poll() is None
            time.sleep(0.01)
        yield child


def counted_states(lab: Lab) -> Counter[str]:
    job = schema.job.c
    with lab.database.reading() as tx:
        rows = tx.execute(select(job.state, func.count().label("jobs")).group_by(job.state))
        return Counter({row.state: row.jobs for row in rows})


def test_others_write_beside_a_large_submission(lab: Lab) -> None:
    """The longest wait is a small part of the whole; on SQLite it was all of it."""
    device = lab.add_device()
    jobs = [lab.planned(device)] * MANY

    def submit_many() -> None:
        submit(lab.database, Selection(), [lab.facts()], planner=lambda *_: jobs)

    waits: list[float] = []
    other = Thread(target=submit_many)
    other.start()
    began = time.monotonic()
    while other.is_alive():
        asked = time.monotonic()
        with lab.database.transaction() as tx:
            store.pause(tx, device, store.Pause(reason="", by="me", at=NOW))
        waits.append(time.monotonic() - asked)
        time.sleep(0.01)
    whole = time.monotonic() - began
    assert counted_states(lab) == {JobState.QUEUED: MANY}
    assert max(waits) < whole / 2


@one_engine
def test_a_killed_submission_sends_nothing(lab: Lab, url: str) -> None:
    """Nor does its repetition by the same key send anything twice."""
    device = lab.add_device()
    with submitting(lab, url, MANY) as child:
        child.kill()
    stored = counted_states(lab)
    assert set(stored) == {JobState.ARRIVING}
    assert stored[JobState.ARRIVING] < MANY
    assert lab.pick(device) == []
    with submitting(lab, url, MANY) as child:
        child.wait()
    assert child.returncode == 0
    cancelled = {JobState.CANCELLED: stored[JobState.ARRIVING]}
    assert counted_states(lab) == cancelled | {JobState.QUEUED: MANY}


@one_engine
def test_keeping_the_packaged_bundle_lets_others_write(lab: Lab) -> None:
    """A scheduler that starts for the first time stores 2,000 pieces of code."""
    waits: list[float] = []
    over = Event()

    def write() -> None:
        while not over.is_set():
            asked = time.monotonic()
            with lab.database.transaction():
                pass
            waits.append(time.monotonic() - asked)
            over.wait(0.01)

    other = Thread(target=write)
    other.start()
    began = time.monotonic()
    keep_packaged(lab.database)
    whole = time.monotonic() - began
    over.set()
    other.join()
    assert max(waits) < whole / 3
