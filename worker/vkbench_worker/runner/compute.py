"""Computes one case on arrays from a file, as `vkbench exec` asks.

A process of its own, because a driver may crash. Says on stdout, as JSON, which variant and device
it was; on failure the last line of stderr says why, and the exit status is the error's.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
from pathlib import Path

import numpy as np

from vkbench.errors import VkbenchError
from vkbench.settings import Settings, settings
from vkbench_shaders.bundle import kept_bundles
from vkbench_shaders.catalogue import problem
from vkbench_worker import policy
from vkbench_worker.protocol import lock_path
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.device import Device


def main() -> int:
    """Compute, and return the exit status."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # drivers talk on stdout
    try:
        answer = run(_arguments(), settings())
    except VkbenchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(answer), file=answers, flush=True)
    return 0


def run(asked: argparse.Namespace, ours: Settings) -> dict[str, str]:
    """Read the arrays, compute on the device that was asked for, write what came out."""
    bundle = kept_bundles(ours).get(asked.bundle)
    policy.check(ours.bundles, bundle.sha)
    with np.load(asked.input, allow_pickle=False) as archive:
        arrays = dict(archive)
    with Device.open(asked.device, ours) as device:
        path = lock_path(ours, device.facts.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a measurement that runs now is not disturbed
            posed = problem(asked.case)
            outputs, variant = compute(device, bundle, posed, asked.variant, arrays)
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
