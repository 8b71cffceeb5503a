"""One-shot work on a device, as `vkbench exec`, `model logits` and `accuracy --model` ask for it.

A process of its own, because a driver may crash:

    python -m vkbench_worker.runner.one_shot compute|logits|perplexity --variant V --device D ...

Says on stdout, as JSON, which variant and device it was, and more on further lines; on failure the
last line of stderr says why, and the exit status is the error's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from vkbench.settings import settings
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.models.cases import VARIANTS
from vkbench_shaders.models.hyper import predicting_hyper_of
from vkbench_shaders.models.requantised import retype_file
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.models.execute import variant_for
from vkbench_worker.models.foreseeing import foreseen
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runner.bounds import opening
from vkbench_worker.runner.errand import Answer, answer_errand, hold_device, take_bundle
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice


def compute_case(options: argparse.Namespace) -> Iterator[Answer]:
    """Compute a case on the arrays of a file, and write what came out to another."""
    with np.load(options.input, allow_pickle=False) as archive:
        arrays = dict(archive)
    with _open_device(options) as (device, bundle):
        problem = pose_case(bundle, options.case)
        outputs, variant = compute(device, bundle, problem, options.variant, arrays)
        np.savez(options.output, **outputs)  # type: ignore[arg-type]
        yield {"variant": variant, "device": device.facts.name}


def write_logits(options: argparse.Namespace) -> Iterator[Answer]:
    """Have a model read the tokens of a file, and write its logits to another."""
    tokens = np.load(options.input, allow_pickle=False)
    with _open_model(options, open_gguf(options.model), len(tokens)) as (model, about):
        np.savez(options.output, logits=model.logits(tokens))
        yield about


def read_windows(options: argparse.Namespace) -> Iterator[Answer]:
    """Read windows (windows, tokens) one by one: the losses of each, and the device's seconds."""
    windows = np.load(options.input, allow_pickle=False)
    file = retype_file(open_gguf(options.model), options.type)
    with _open_model(options, file, windows.shape[1]) as (model, about):
        yield about
        for window in windows:
            losses, seconds = foreseen(model, window)
            yield {"losses": losses.tolist(), "seconds": seconds}


ERRANDS: Final[Mapping[str, Callable[[argparse.Namespace], Iterator[Answer]]]] = {
    "compute": compute_case,
    "logits": write_logits,
    "perplexity": read_windows,
}


@contextmanager
def _open_device(options: argparse.Namespace) -> Iterator[tuple[VulkanDevice, Bundle]]:
    here = settings()
    bundle = take_bundle(options.bundle, here)
    opened = VulkanDevice.open(options.device, opening(here, bundle))
    with opened as device, hold_device(here, device.facts.key):
        yield device, bundle


@contextmanager
def _open_model(
    options: argparse.Namespace, file: GgufFile, tokens: int
) -> Iterator[tuple[Model, Answer]]:
    """A file's model that reads so many tokens, with its code path and device."""
    hyper = predicting_hyper_of(file, tokens)
    with _open_device(options) as (device, bundle):
        variant = variant_for(options.variant, device.facts)
        how = Options(context=tokens, cache=options.cache, products=VARIANTS[variant])
        with Model(device, bundle, file, hyper, how) as model:
            yield model, {"variant": variant, "device": device.facts.name}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("errand", choices=ERRANDS)
    for name in ("variant", "device", "bundle"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("case", "cache", "type"):
        parser.add_argument(f"--{name}")
    for name in ("input", "output", "model"):
        parser.add_argument(f"--{name}", type=Path)
    return parser.parse_args()


def main() -> int:
    """Do the errand that was asked for, and return the exit status."""
    options = _options()
    return answer_errand(lambda: ERRANDS[options.errand](options))


if __name__ == "__main__":
    sys.exit(main())
