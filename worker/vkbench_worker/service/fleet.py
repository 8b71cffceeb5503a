"""A parent of worker processes: starts again those that fall, and passes SIGTERM on."""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vkbench.process import log

LOOK_SECONDS = 0.5
PARTING_LOOK_SECONDS = 0.1  # two signals that a process gets at once count as one
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 10.0  # a process that lasted this long was in order
HOPELESS = (2, 4, 8)  # exit codes of vkbench.errors: a first start that ends so is not repeated

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Member:
    """One process of the fleet."""

    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    pause: float = FIRST_PAUSE_SECONDS
    start_at: float = field(default_factory=time.monotonic)
    was_steady: bool = False
    status: int | None = None  # once it has ended for good


def serve(commands: Sequence[Sequence[str]]) -> int:
    """Keep one process a command alive until SIGTERM or SIGINT; returns the exit status."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    members = [Member(command=command) for command in commands]
    while not stopping and any(member.status is None for member in members):
        for member in members:
            _tend(member)
        time.sleep(LOOK_SECONDS)
    ended = [member.status for member in members if member.status is not None]
    return max(0, _stop([member.process for member in members if member.process], stopping), *ended)


def _tend(member: Member) -> None:
    if member.process:
        _look_after(member, member.process)
    elif member.status is None and time.monotonic() >= member.start_at:
        member.start_at = time.monotonic()
        # A group of its own: Ctrl-C reaches the parent, which stops each with one SIGTERM.
        member.process = subprocess.Popen(member.command, process_group=0)


def _look_after(member: Member, process: subprocess.Popen[bytes]) -> None:
    status = process.poll()
    if time.monotonic() - member.start_at > STEADY_SECONDS:
        member.was_steady, member.pause = True, FIRST_PAUSE_SECONDS
    if status is None:
        return
    member.process = None
    if status == 0 or (status in HOPELESS and not member.was_steady):
        member.status = status
        return
    log.warn(_log, "worker_fell", command=member.command[-1], status=status)
    member.start_at = time.monotonic() + member.pause
    member.pause = min(2 * member.pause, LONGEST_PAUSE_SECONDS)


def _stop(processes: Sequence[subprocess.Popen[bytes]], signals: Sequence[int]) -> int:
    """Pass on each signal, those that come meanwhile too; the highest exit status."""
    passed_on = 0
    while any(process.poll() is None for process in processes):
        if passed_on < max(1, len(signals)):
            passed_on += 1
            for process in processes:
                process.terminate()
        time.sleep(PARTING_LOOK_SECONDS)
    # One that is told to stop before it listens ends by that signal.
    return max((process.wait() for process in processes), default=0)
