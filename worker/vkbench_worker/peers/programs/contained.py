"""Starts a program of a build, contained: in its folder, with one folder that it may write to.

It stays in the group of the process that starts it, which a supervisor ends whole: whatever the
program started ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from vkbench.device import NVIDIA, DeviceFacts
from vkbench.job import Outcome
from vkbench.programs.store import list_linked
from vkbench.settings import settings
from vkbench_worker.containment import environment
from vkbench_worker.owner.child import Babble, Child, Gone, NoAnswer, Silence

MOST_OUTPUT: Final = 64 << 20  # bytes that a program prints before it ends
_MODULE: Final = "vkbench_worker.peers.programs.start"


def start_program(
    words: Sequence[str],
    folder: Path,
    scratch: Path,
    facts: DeviceFacts | None = None,
    *,
    is_apart: bool = False,
) -> Child:
    """The process of a command; of NVIDIA's devices it sees one, of others it is told.

    One that is apart has a group of its own, which its caller ends.
    """
    reads = [folder, *list_linked(folder)]
    command = environment.contained_command(
        _MODULE, str(os.getpid()), str(folder), *words, reads=reads, writes=[scratch]
    )
    variables = environment.of(settings()) | {"TMPDIR": str(scratch)}
    if facts and facts.vendor_id == NVIDIA:
        variables["CUDA_VISIBLE_DEVICES"] = f"GPU-{UUID(facts.uuid)}"
    return Child(command, variables, name="the program", is_apart=is_apart)


def run_to_the_end(child: Child, deadline: float) -> list[str]:
    """What a program prints until it ends, in lines; NoAnswer if it fails, or prints too much."""
    lines: list[str] = []
    left = MOST_OUTPUT
    try:
        while left >= 0:
            line = child.line(deadline)
            left -= len(line) + 1
            lines.append(line.decode(errors="replace"))
        raise NoAnswer(Outcome.ERROR, f"the program printed over {MOST_OUTPUT >> 20} MiB")
    except Gone:
        if child.wait():
            raise NoAnswer(*child.cause_of_death()) from None
    except Silence:
        raise NoAnswer(Outcome.TIMED_OUT, "the program did not end in time") from None
    except Babble as error:
        raise NoAnswer(Outcome.ERROR, f"the program printed {error}") from None
    finally:
        child.close()
    return lines
