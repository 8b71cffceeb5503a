"""What systems do differently: tried here by processes that hold locks and lose parents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vkbench.process import system

HOLD = """
import sys
from vkbench.process import system
with open(sys.argv[1], "a") as file:
    print(system.lock(file, shared=sys.argv[2] == "shared", waits=False), flush=True)
    sys.stdin.read()
"""
ORPHAN = """
import os, sys, time
from vkbench.process import system
if os.fork() == 0:
    system._WATCH_SECONDS = 0.05
    system.watch(os.getppid())
    print(os.getpid(), flush=True)
    time.sleep(60)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("first", "second", "granted"),
    [("alone", "alone", False), ("alone", "shared", False), ("shared", "shared", True)],
)
def test_a_lock_keeps_others_out_until_its_holder_is_gone(
    tmp_path: Path, first: str, second: str, granted: bool
) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path), first]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"True\n"
        with path.open("a") as file:
            assert system.lock(file, shared=second == "shared", waits=False) is granted
        holder.kill()
    with path.open("a") as file:
        assert system.lock(file)


def test_who_watches_a_parent_ends_with_it() -> None:
    command = [sys.executable, "-c", ORPHAN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        os.kill(child, 0)  # it lives
        parent.send_signal(signal.SIGKILL)
        assert parent.wait(5)
        assert parent.stdout.read() == b""  # closed by the child's end: nobody else has it


def test_a_process_without_its_parent_is_told() -> None:
    assert not system.end_with(os.getpid(), signal.SIGURG)


def test_processors_are_those_that_may_be_used() -> None:
    assert system.usable_processors() == len(os.sched_getaffinity(0))
    assert system.processor_name()
    assert system.free_memory_bytes() > 1 << 20


def test_memory_that_holds_parts_of_files_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "MemTotal:  8000 kB\nMemFree:  100 kB\nMemAvailable:  6000 kB\n"
    monkeypatch.setattr(system, "_text", lambda _: answer)
    assert system.free_memory_bytes() == 6000 * 1024
