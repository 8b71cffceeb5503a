"""Checks on one device what is planned for another: for paths that the device would not take."""

from __future__ import annotations

from contextlib import ExitStack

from vkbench.device import DeviceFacts
from vkbench.result import Verdict
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.runner.variants import LaunchPlan, choose, plan
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.timed import check


def checked(
    device: VulkanDevice, bundle: Bundle, case: str, path: str, facts: DeviceFacts
) -> tuple[Verdict, LaunchPlan]:
    """The verdict on a case by a code path, as it is planned by these facts."""
    posed = problem(case)
    chosen = choose(posed, path, facts)
    planned = plan(bundle, chosen, facts)
    with ExitStack() as stack:
        prepared = prepare(posed)
        bench = Bench(device, planned, prepared.storages, stack)
        return check(bench, chosen.variant.arithmetic, prepared).verdict, planned
