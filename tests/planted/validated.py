"""Every kernel by every variant under the validation layer: `make validate`.

The layer checks synchronisation, and has shaders check each access of theirs. Each path checks and
times the smallest case that it takes. What the layer says fails the case, and is printed; the exit
status is 1 then, save for what is in MISTAKEN.

    python tests/planted/validated.py                every variant of every kernel
    python tests/planted/validated.py --formats      and with every set of formats that it has
    python tests/planted/validated.py --kernel copy  of one kernel
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_shaders.bundle import Bundle, packaged
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

LIMIT_SECONDS = 600.0
# What a layer says that is not so, by kernel and variant: 1.4.363 looks for races in shared memory,
# and only a barrier of the whole workgroup counts; this one has a barrier of the subgroup.
MISTAKEN = {("flash_attn", "coopmat"): "SharedMemoryDataRace-"}
MISTAKEN_WORD = "mistaken"
MEASURE_SECONDS = 0.01  # launches of a timing follow each other, as no others do


def main() -> int:
    """Run them all and print what is not clean."""
    asked = _arguments()
    bundle = packaged()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as cache:
        ours = replace(settings(), cache=Path(cache), validation=True, gpu_assisted=True)
        ours = replace(ours, robust=False)  # or no stray access is told
        with VulkanDevice.open(asked.device, ours) as device:
            print(f"on {device.facts.name}, {device.environment.driver_version}", flush=True)
            for kernel in KERNELS:
                if asked.kernel in ("", kernel.name):
                    counts.update(_of_kernel(device, bundle, kernel, asked.formats))
            device.raise_messages()
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"paths: {told}")
    return int(counts.keys() - {Outcome.PASSED, Outcome.SKIPPED, MISTAKEN_WORD} != set())


def _of_kernel(device: VulkanDevice, bundle: Bundle, kernel: Kernel, each: bool) -> Iterator[str]:
    for variant, listed in paths(kernel, each_format=each):
        began = time.monotonic()
        case, outcome, reason = _tried(device, bundle, variant, listed)
        seconds = time.monotonic() - began
        print(f"{outcome:8} {seconds:6.1f} s  {case} {variant}  {reason}".rstrip(), flush=True)
        yield outcome


def paths(kernel: Kernel, *, each_format: bool) -> Iterator[tuple[str, list[Problem]]]:
    """Each variant of a kernel, or of each of its formats, with its cases, the smallest first."""
    found: dict[tuple[str, str], list[Problem]] = {}
    for case in kernel.cases:
        posed = Problem(kernel, case)
        for variant in kernel.variants_for(posed.types):
            kind = str(posed.types) if each_format else ""
            found.setdefault((variant.name, kind), []).append(posed)
    for (name, _), listed in found.items():
        yield name, sorted(listed, key=size_of)


def size_of(posed: Problem) -> tuple[bool, int]:
    """Elements of all bindings; a case without any comes last."""
    shapes = (posed.array_shape(binding.name) for binding in posed.kernel.bindings)
    elements = sum(map(prod, shapes))
    return 0 in posed.shape.values(), elements


def _tried(
    device: VulkanDevice, bundle: Bundle, variant: str, listed: list[Problem]
) -> tuple[str, str, str]:
    for posed in listed:
        job = Job(
            id=1,
            token=1,
            case=posed.case.name,
            mode=Mode.PERFORMANCE,
            variant=variant,
            measure_seconds=MEASURE_SECONDS,
            limit_seconds=LIMIT_SECONDS,
        )
        result = execute(device, bundle, job)
        if result.outcome is not Outcome.SKIPPED:
            break
    return result.case, _judged(posed.kernel, variant, result), result.reason


def _judged(kernel: Kernel, variant: str, result: Result) -> str:
    """The outcome; MISTAKEN_WORD where the layer is known to be wrong."""
    mistake = MISTAKEN.get((kernel.name, variant))
    is_known = mistake and result.reason.startswith(f"validation layer: {mistake}")
    return MISTAKEN_WORD if is_known else result.outcome


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--device", default="llvmpipe")
    parser.add_argument("--kernel", default="")
    parser.add_argument("--formats", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
