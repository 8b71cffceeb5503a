"""A parent of worker processes: starts again those that fall, and passes SIGTERM on."""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vkbench import log

LOOK_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0  # a process that lasted this long starts again without a longer pause
_PR_SET_PDEATHSIG = 1

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Member:
    """One process of the fleet."""

    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    pause: float = FIRST_PAUSE_SECONDS
    start_at: float = field(default_factory=time.monotonic)
    done: bool = False


def serve(commands: Sequence[Sequence[str]]) -> int:
    """Keep one process a command alive until SIGTERM or SIGINT; returns the exit status."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    members = [Member(command=command) for command in commands]
    while not stopping and not all(member.done for member in members):
        for member in members:
            _tend(member)
        time.sleep(LOOK_SECONDS)
    return _stop([member.process for member in members if member.process])


def die_with_parent() -> None:
    """Get SIGTERM when the parent ends, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _tend(member: Member) -> None:
    if member.process:
        _look_after(member, member.process)
    elif not member.done and time.monotonic() >= member.start_at:
        member.start_at = time.monotonic()
        # A group of its own: Ctrl-C reaches the parent, which stops each with one SIGTERM.
        member.process = subprocess.Popen(member.command, process_group=0)


def _look_after(member: Member, process: subprocess.Popen[bytes]) -> None:
    status = process.poll()
    if status is None:
        return
    member.process = None
    member.done = status == 0
    if time.monotonic() - member.start_at > STEADY_SECONDS:
        member.pause = FIRST_PAUSE_SECONDS
    member.start_at = time.monotonic() + member.pause
    member.pause = min(2 * member.pause, LONGEST_PAUSE_SECONDS)
    if status:
        log.warn(_log, "worker_fell", command=member.command[-1], status=status)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    for process in processes:
        process.terminate()
    return max((process.wait() for process in processes), default=0)
