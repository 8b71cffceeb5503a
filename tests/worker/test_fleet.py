"""A fleet keeps its members alive, and knows when that is hopeless."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SERVE = (
    "import sys; from vkbench_worker.service import fleet; sys.exit(fleet.serve([sys.argv[1:]]))"
)
MEMBER = """
import pathlib, sys, time
notes = pathlib.Path(sys.argv[1])
with notes.open("a") as file:
    file.write("begun\\n")
if len(notes.read_text().split()) < int(sys.argv[2]):
    sys.exit(int(sys.argv[3]))
time.sleep(60)
"""


def member(notes: Path, good_at: int, status: int) -> list[str]:
    return [sys.executable, "-c", MEMBER, str(notes), str(good_at), str(status)]


def starts(notes: Path) -> int:
    return len(notes.read_text().split()) if notes.exists() else 0


def started(notes: Path, count: int) -> bool:
    end = time.monotonic() + 20
    while starts(notes) < count and time.monotonic() < end:
        time.sleep(0.05)
    return starts(notes) >= count


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_member_that_falls_starts_again_until_the_fleet_stops(
    tmp_path: Path, number: signal.Signals
) -> None:
    notes = tmp_path / "notes"
    command = [sys.executable, "-c", SERVE, *member(notes, 3, 75)]
    with subprocess.Popen(command) as running:
        assert started(notes, 3)
        time.sleep(0.6)
        running.send_signal(number)
        assert running.wait(10) == 0
    assert starts(notes) == 3


def test_a_first_start_that_is_hopeless_is_not_repeated(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    command = [sys.executable, "-c", SERVE, *member(notes, 2, 4)]
    assert subprocess.run(command, timeout=20, check=False).returncode == 4
    assert starts(notes) == 1


def test_members_go_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys, time; from vkbench.process import system; "
        "system.end_with(os.getppid(), signal.SIGTERM);"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); time.sleep(60)"
    )
    command = [sys.executable, "-c", SERVE, sys.executable, "-c", code]
    noted, limit = tmp_path / "pid", time.monotonic() + 20
    with subprocess.Popen(command) as parent:
        while not (noted.exists() and noted.read_text()) and time.monotonic() < limit:
            time.sleep(0.05)
        parent.kill()
    pid = int(noted.read_text())
    end = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _alive(pid)


def test_no_member_is_no_work() -> None:
    code = "import sys; from vkbench_worker.service import fleet; sys.exit(fleet.serve([]))"
    assert subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
