"""Works out how well a model foresees tokens, as `vkbench accuracy --model` asks.

A process of its own, because a driver may crash. Says on stdout, as JSON, first which variant and
device it is, then a line for each window; on failure the last line of stderr says why, and the exit
status is the error's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from vkbench.settings import Settings, settings
from vkbench_shaders.bundle import kept_bundles
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import VARIANTS
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.requantised import retype_file
from vkbench_worker import policy
from vkbench_worker.models.execute import variant_for
from vkbench_worker.models.foreseeing import foreseen
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runner.bounds import opening
from vkbench_worker.runner.errand import alone, answered
from vkbench_worker.runtime.vulkan.device import VulkanDevice


def run(asked: argparse.Namespace, ours: Settings) -> Iterator[Mapping[str, object]]:
    """Read windows (windows, tokens) one by one: the losses of each, and the device's seconds."""
    bundle = kept_bundles(ours).get(asked.bundle)
    policy.check(ours.bundles, bundle.sha)
    windows = np.load(asked.input, allow_pickle=False)
    context = windows.shape[1]
    file = retype_file(open_gguf(asked.model), asked.type)
    hyper = hyper_of(file, context)
    opened = VulkanDevice.open(asked.device, opening(ours, bundle))
    with opened as device, alone(ours, device.facts.key):
        variant = variant_for(asked.variant, device.facts)
        options = Options(context=context, cache=asked.cache, products=VARIANTS[variant])
        yield {"variant": variant, "device": device.facts.name}
        with Model(device, bundle, file, hyper, options) as model:
            for window in windows:
                losses, seconds = foreseen(model, window)
                yield {"losses": losses.tolist(), "seconds": seconds}


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser()
    for name in ("variant", "device", "bundle", "cache", "type"):
        arguments.add_argument(f"--{name}", required=True)
    for name in ("model", "input"):
        arguments.add_argument(f"--{name}", required=True, type=Path)
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(answered(lambda: run(_arguments(), settings())))
