"""The process of a peer: checks and times cases by one library or program until its input ends.

    python -m vkbench_worker.peers.main --peer NAME [--folder BUILD] [--program JSON] --parent PID

It reads a `Ready`, which says which device is meant, then a `Job` a line, and answers each with a
`Result`; what it checked of a job that comes again stays. No driver of Vulkan is loaded here, and
no peer's libraries into a runner. A program that a user declared is a process of its own,
contained, whose answers this one judges.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from vkbench.device import DeviceFacts
from vkbench.job import Job, Outcome
from vkbench.process import system
from vkbench.programs.program import ADAPTERS
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_shaders.bundle import packaged
from vkbench_worker.peers.device import PeerDevice
from vkbench_worker.peers.execute import execute_peer
from vkbench_worker.peers.kept import KeptBench
from vkbench_worker.peers.library import CannotDo, Library
from vkbench_worker.protocol import FAILED_STATUS, VISIT, Ready, line_of, read_line
from vkbench_worker.runner.inbox import Inbox

Answer = Callable[[Job], Result]
Begin = Callable[[str, Ready, str, KeptBench], Answer]


def numpy_for(facts: DeviceFacts) -> Library[Any]:
    """numpy, if the device is this host's processor; CannotDo otherwise."""
    from vkbench_worker.peers.numpy_library import NumpyLibrary

    if facts.type != "cpu":
        raise CannotDo(f"numpy computes on processors, and {facts.name} is none")
    return NumpyLibrary()


def torch_for(facts: DeviceFacts) -> Library[Any]:
    """torch on the device; CannotDo says why it is not there."""
    from vkbench_worker.peers import torch_library

    return torch_library.torch_for(facts)


LIBRARIES: Final[Mapping[str, Callable[[DeviceFacts], Library[Any]]]] = {
    "numpy": numpy_for,
    "torch": torch_for,
}


def of_library(peer: str, ready: Ready, folder: str, kept: KeptBench) -> Answer:
    """Answer jobs by a library's functions."""
    device = PeerDevice(library := LIBRARIES[peer](ready.facts), ready.facts, ready.environment)
    return lambda job: execute_peer(library, device, packaged(), job, kept=kept)


def of_ggml(peer: str, ready: Ready, folder: str, kept: KeptBench) -> Answer:
    """Answer jobs by llama.cpp's libraries and programs, of a build or of this host."""
    from vkbench_worker.peers.llama_cpp.execute import Ggml

    return Ggml(ready, settings(), kept, build=folder)


def of_declared(text: str) -> Begin:
    """Answer jobs by a program that a user declared, as JSON says it."""
    from vkbench_worker.peers.programs.execute import DeclaredProgram

    return lambda peer, ready, folder, kept: DeclaredProgram(text, ready, folder)


PEERS: Final[Mapping[str, Begin]] = {
    **dict.fromkeys(LIBRARIES, of_library),
    "ggml": of_ggml,
}


def main() -> int:
    """Serve until stdin ends; returns the exit status."""
    parser = argparse.ArgumentParser(prog="vkbench_worker.peers.main", description=__doc__)
    parser.add_argument("--peer", required=True, choices=[*PEERS, *ADAPTERS])
    parser.add_argument("--folder", default="", help="where a build's files lie")
    parser.add_argument("--program", default="", help="what a user declared, as JSON")
    parser.add_argument("--parent", type=int, required=True, help="process to die with")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    if not system.end_with(options.parent):
        print(f"process {options.parent} did not start this one, or is gone", file=sys.stderr)
        return FAILED_STATUS
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    inbox = Inbox(sys.stdin.fileno())
    ready = read_line(next(inbox), Ready)
    begin = of_declared(options.program) if options.program else PEERS[options.peer]
    kept = KeptBench()
    do = _answering(begin, options.peer, ready, options.folder, kept)
    for line in inbox:
        if not line:
            kept.let_go()
            continue
        kept.stays = line.startswith(VISIT)
        answers.write(line_of(do(read_line(line.removeprefix(VISIT), Job))))
        answers.flush()
    return 0


def _answering(begin: Begin, peer: str, ready: Ready, folder: str, kept: KeptBench) -> Answer:
    """Answer jobs by the peer, or with the reason why there is none here."""
    try:
        return begin(peer, ready, folder, kept)
    except CannotDo as error:
        blank = Result(job=0, token=0, outcome=Outcome.SKIPPED, reason=str(error), variant=peer)
        return lambda job: replace(blank, job=job.id, token=job.token, case=job.case)


if __name__ == "__main__":
    sys.exit(main())
