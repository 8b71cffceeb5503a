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
from vkbench_shaders.bundle import kept_bundles
from vkbench_worker import policy
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.owner.hardware import Hardware
from vkbench_worker.protocol import lock_folder
from vkbench_worker.runner.bounds import checks_bounds, note_bounds_checked, opening
from vkbench_worker.runner.errand import Answer, alone, answered
from vkbench_worker.runtime.device import Device
from vkbench_worker.shards.division import division_of
from vkbench_worker.shards.outcome import outcome
from vkbench_worker.shards.shards import Shards


def main() -> int:
    """Do what was asked for, and return the exit status."""
    return answered(lambda: run(_arguments()))


def run(asked: argparse.Namespace) -> Iterator[Answer]:
    """What became of the case with each number of shards."""
    ours = settings()
    bundle = kept_bundles(ours).get(asked.bundle)
    policy.check(ours.bundles, bundle.sha)
    problem = catalogue.problem(asked.case)
    for count in asked.shards:
        division_of(problem, count, asked.pieces)
    prepared = prepare(problem)
    with ExitStack() as stack:
        for key in sorted(asked.device):  # in one order, so that no two wait for each other
            stack.enter_context(alone(ours, key))
        opened = [Device.open(key, opening(ours, bundle)) for key in asked.device]
        devices = _apart([stack.enter_context(device) for device in opened])
        for name in sorted({device.hardware or device.facts.key for device in devices}):
            hardware = Hardware(lock_folder(ours), name)
            stack.enter_context(hardware.held(alone=True, leaving=lambda: False))
        for count in asked.shards:
            used = devices[:count] if count <= len(devices) else devices[:1]
            with ExitStack() as inner:
                shards = Shards(
                    used, count, bundle, problem, prepared, asked.variant, inner, asked.pieces
                )
                found = outcome(shards, asked.variant, asked.seconds)
                if checks_bounds(bundle):
                    found = replace(found, result=note_bounds_checked(found.result))
            yield cast(Answer, to_builtins(found))


def _apart(devices: list[Device]) -> list[Device]:
    """Those that can work at one time: CPU drivers share their processors."""
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
