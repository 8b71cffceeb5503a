"""Launches that wait in their shaders for those before; by themselves they wait for nothing."""

from __future__ import annotations

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench_shaders import chains
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_shaders.tuning.configurations import obstacle
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.device import Device

CHAINED = [kernel for kernel in KERNELS if {v.name for v in kernel.variants} & {*chains.NAMES}]
MOST = 8  # cases of a kernel, evenly out of those that a device takes


def taken(kernel: Kernel, device: Device) -> list[tuple[str, str]]:
    """Case and variant."""
    return [
        (case.name, variant.name)
        for case in kernel.cases
        for variant in kernel.variants_for(Problem(kernel, case).types)
        if variant.name in chains.NAMES
        and not obstacle(Problem(kernel, case), variant, device.facts)
    ]


@pytest.mark.parametrize("kernel", CHAINED, ids=lambda kernel: kernel.name)
def test_a_launch_by_itself_is_right(lavapipe: Device, bundle: Bundle, kernel: Kernel) -> None:
    cases = taken(kernel, lavapipe)
    some = cases[:: -(-len(cases) // MOST)]
    assert len(some) > 1
    for number, (case, variant) in enumerate(some):
        job = Job(id=number, token=1, case=case, mode=Mode.CORRECTNESS, variant=variant)
        result = execute(lavapipe, bundle, job)
        assert result.outcome is Outcome.PASSED, (case, result.reason)
