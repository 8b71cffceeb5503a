"""Timings of cases that other programs took and named, as results of a peer beside ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError, VkbenchError
from vkbench_local.peers.benchmark_files import NamedTest
from vkbench_local.peers.imported import PeerRun, PeerTiming, device_of, posed_case, records_of
from vkbench_shaders.catalogue import KERNELS

EXAMPLE: Final = "mul_mat/f16/m4096_n512_k4096"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def check_peer(name: str) -> str:
    """A name that a peer's results may have: short, and no code path's."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--peer takes up to 40 letters, digits, dots and dashes; got {name!a}")
    taken = {"auto", "all", *(variant.name for kernel in KERNELS for variant in kernel.variants)}
    if name.casefold() in taken:
        raise UsageError(f"--peer {name} is the name of a code path: choose another")
    return name


def named_run(
    peer: str,
    program: str,
    tests: Sequence[NamedTest],
    label: str,
    devices: Sequence[DeviceFacts],
    device: DeviceFacts | None,
    moment: float,
) -> PeerRun:
    """The tests as a run of a peer that a program's file told of.

    `device` is that of all tests, where the file need not tell, and `moment` when they ended.
    UsageError if a test's device is not known, or no test has a case.
    """
    left_out: Counter[str] = Counter()
    timings: list[tuple[DeviceFacts, PeerTiming]] = []
    for test in tests:
        try:
            posed = posed_case(test.name)
        except (VkbenchError, ValueError):
            left_out["whose name is no case"] += 1
            continue
        told = PeerTiming(
            case=posed.case.name,
            samples=test.samples,
            deviation=test.deviation,
            finished_at=test.finished_at,
            seconds=sum(test.samples),
            said=f"told by a file of {program}, and not judged",
            settings=test.settings,
            metric=test.metric,
            clock=test.clock,
            bytes_moved=posed.bytes_moved,
            flops=posed.flops,
        )
        timings.append((device or device_of(test.device, test.number, devices), told))
    if not timings:
        raise UsageError(
            f"none of the {len(tests)} benchmarks is named as a case, such as {EXAMPLE}"
        )
    return PeerRun(records=records_of(peer, label, timings, moment), left_out=left_out)
