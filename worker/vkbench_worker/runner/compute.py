"""Computes one case on arrays from a file, as `vkbench exec` asks.

A process of its own, because a driver may crash. Says on stdout, as JSON, which variant and device
it was; on failure the last line of stderr says why, and the exit status is the error's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from vkbench.settings import Settings, settings
from vkbench_shaders.bundle import kept_bundles
from vkbench_shaders.own.posing import pose_case
from vkbench_worker import policy
from vkbench_worker.runner.bounds import opening
from vkbench_worker.runner.errand import alone, answered
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice


def main() -> int:
    """Compute, and return the exit status."""
    return answered(lambda: [run(_arguments(), settings())])


def run(asked: argparse.Namespace, ours: Settings) -> dict[str, str]:
    """Read the arrays, compute on the device that was asked for, write what came out."""
    bundle = kept_bundles(ours).get(asked.bundle)
    policy.check(ours.bundles, bundle.sha)
    with np.load(asked.input, allow_pickle=False) as archive:
        arrays = dict(archive)
    opened = VulkanDevice.open(asked.device, opening(ours, bundle))
    with opened as device, alone(ours, device.facts.key):
        problem = pose_case(bundle, asked.case)
        outputs, variant = compute(device, bundle, problem, asked.variant, arrays)
        np.savez(asked.output, **outputs)  # type: ignore[arg-type]
        return {"variant": variant, "device": device.facts.name}


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser()
    for name in ("case", "variant", "device", "bundle"):
        arguments.add_argument(f"--{name}", required=True)
    for name in ("input", "output"):
        arguments.add_argument(f"--{name}", required=True, type=Path)
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(main())
