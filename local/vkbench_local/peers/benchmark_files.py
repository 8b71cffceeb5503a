"""Timings of cases that any program took and named, in files of Google Benchmark or nvbench.

Nothing of a file is run.
"""

from __future__ import annotations

import re
from typing import Final

from vkbench.errors import UsageError, VkbenchError
from vkbench.peers import BY_NAME
from vkbench_local.peers.imported import NoCase, PeerTiming, posed_case
from vkbench_shaders.catalogue import is_code_path
from vkbench_worker.peers.programs.benchmark_files import NamedTest

EXAMPLE: Final = "mul_mat/f16/m4096_n512_k4096"
_PEER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def check_peer(name: str, option: str = "--peer") -> str:
    """A name that a peer's or a program's results may have: short, and no code path's."""
    if not _PEER_NAME.fullmatch(name):
        raise UsageError(f"{option} takes up to 40 letters, digits, dots and dashes; got {name!a}")
    if is_code_path(name):
        raise UsageError(f"{option} {name} is the name of a code path: choose another")
    if option != "--peer" and name in BY_NAME:
        raise UsageError(f"{option} {name} is the name of a peer: choose another")
    return name


def named_timing(program: str, test: NamedTest) -> PeerTiming:
    """What a benchmark of a program's file timed; NoCase if its name is none of a case."""
    try:
        posed = posed_case(test.name)
    except (VkbenchError, ValueError) as error:
        raise NoCase("whose name is no case") from error
    return PeerTiming(
        case=posed.case.name,
        samples=test.samples,
        deviation=test.deviation,
        finished_at=test.finished_at,
        seconds=sum(test.samples),
        origin=f"told by a file of {program}, and not judged",
        settings=test.settings,
        metric=test.metric,
        clock=test.clock,
        bytes_moved=posed.bytes_moved,
        flops=posed.flops,
    )
