"""Every kernel, by `auto`, on the first device there under the validation layer; rows of JSON.

python tests/planted/profiled.py 3    of each kernel the smallest case of its fourth formats
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from validated import size_of
from vkbench.job import Job, Mode
from vkbench.settings import settings
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

LIMIT_SECONDS = 600.0


def main() -> None:
    """Run them all, a line each."""
    turn = int(sys.argv[1])
    bundle = packaged()
    with tempfile.TemporaryDirectory() as cache:
        ours = replace(settings(), cache=Path(cache), validation=True, robust=False)
        with VulkanDevice.open("llvmpipe", ours) as device:
            for case in pick_cases(turn):
                job = Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS)
                result = execute(device, bundle, replace(job, limit_seconds=LIMIT_SECONDS))
                told = (case, result.variant, result.outcome, result.reason, result.seconds)
                print(json.dumps(told), flush=True)
            device.raise_messages()
            print(json.dumps(dict(device.facts.limits)))


def pick_cases(turn: int) -> Iterator[str]:
    """The smallest case of each kernel, each time with other formats."""
    for kernel in KERNELS:
        listed = list(_smallest_of_formats(kernel))
        yield listed[turn % len(listed)].case.name


def _smallest_of_formats(kernel: Kernel) -> Iterator[Problem]:
    found: dict[str, list[Problem]] = {}
    for case in kernel.cases:
        posed = Problem(kernel, case)
        found.setdefault(str(posed.types), []).append(posed)
    for cases in found.values():
        yield min(cases, key=size_of)


if __name__ == "__main__":
    main()
