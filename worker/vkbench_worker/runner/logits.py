"""Works out a model's logits of given tokens, as `vkbench model logits` asks.

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
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import VARIANTS
from vkbench_shaders.models.hyper import hyper_of
from vkbench_worker import policy
from vkbench_worker.models.execute import variant_for
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runner.bounds import opening
from vkbench_worker.runner.errand import answer_errand, hold_device
from vkbench_worker.runtime.vulkan.device import VulkanDevice


def run(request: argparse.Namespace, settings: Settings) -> dict[str, str]:
    """Read the tokens, run the model on the device that was asked for, write its logits."""
    bundle = kept_bundles(settings).get(request.bundle)
    policy.check(settings.bundles, bundle.sha)
    tokens = np.load(request.input, allow_pickle=False)
    file = open_gguf(request.model)
    hyper = hyper_of(file, len(tokens))
    opened = VulkanDevice.open(request.device, opening(settings, bundle))
    with opened as device, hold_device(settings, device.facts.key):
        variant = variant_for(request.variant, device.facts)
        options = Options(context=len(tokens), cache=request.cache, products=VARIANTS[variant])
        with Model(device, bundle, file, hyper, options) as model:
            np.savez(request.output, logits=model.logits(tokens))
        return {"variant": variant, "device": device.facts.name}


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser()
    for name in ("variant", "device", "bundle", "cache"):
        arguments.add_argument(f"--{name}", required=True)
    for name in ("model", "input", "output"):
        arguments.add_argument(f"--{name}", required=True, type=Path)
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(answer_errand(lambda: [run(_arguments(), settings())]))
