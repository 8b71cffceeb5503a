"""Divides a case among devices, once for each number of shards, as `vkbench shard` asks.

A process of its own, because a driver may crash. Says on stdout, a line of JSON for each number,
with its result; on failure the last line of stderr says why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

from vkbench.messages.wire import to_builtins
from vkbench.settings import settings
from vkbench_shaders import catalogue
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.owner.hardware import Hardware
from vkbench_worker.protocol import lock_folder
from vkbench_worker.runner.bounds import checks_bounds, note_bounds_checked, opening
from vkbench_worker.runner.errand import Answer, answer_errand, hold_device, take_bundle
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.shards.division import division_of
from vkbench_worker.shards.outcome import outcome
from vkbench_worker.shards.shards import Shards, Spread


def main() -> int:
    """Do what was asked for, and return the exit status."""
    return answer_errand(lambda: run(_arguments()))


def run(request: argparse.Namespace) -> Iterator[Answer]:
    """The outcome of the case with each number of shards."""
    current = settings()
    bundle = take_bundle(request.bundle, current)
    problem = catalogue.problem(request.case)
    for count in request.shards:
        division_of(problem, count, request.pieces)
    prepared = prepare(problem)
    with ExitStack() as stack:
        for key in sorted(request.device):  # in one order, so that no two wait for each other
            stack.enter_context(hold_device(current, key))
        opened = [VulkanDevice.open(key, opening(current, bundle)) for key in request.device]
        devices = _apart([stack.enter_context(device) for device in opened])
        for name in sorted({device.hardware or device.facts.key for device in devices}):
            hardware = Hardware(lock_folder(current), name)
            stack.enter_context(hardware.hold(alone=True, leaving=lambda: False))
        for count in request.shards:
            used = devices[:count] if count <= len(devices) else devices[:1]
            with ExitStack() as inner:
                spread = Spread(devices=used, count=count, pieces=request.pieces)
                shards = Shards(spread, bundle, problem, prepared, request.variant, inner)
                sharded = outcome(shards, request.variant, request.seconds)
                if checks_bounds(bundle):
                    sharded = replace(sharded, result=note_bounds_checked(sharded.result))
            yield cast(Answer, to_builtins(sharded))


def _apart(devices: list[VulkanDevice]) -> list[VulkanDevice]:
    """The devices that can work at one time: CPU drivers share their processors."""
    by_hardware = {device.hardware or device.facts.key: device for device in reversed(devices)}
    return [device for device in devices if device in by_hardware.values()]


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser()
    for name in ("case", "variant", "bundle"):
        arguments.add_argument(f"--{name}", required=True)
    arguments.add_argument("--device", required=True, nargs="+", help="keys")
    arguments.add_argument("--shards", required=True, nargs="+", type=int)
    arguments.add_argument("--pieces", required=True, type=int, help="of each shard")
    arguments.add_argument("--seconds", required=True, type=float, help="of each timing")
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(main())
