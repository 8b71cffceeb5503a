"""How well a model foresees a text on a device, worked out in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from vkbench.settings import Settings
from vkbench_local.compute import answers
from vkbench_shaders.models.perplexity import Foreseen
from vkbench_worker.containment import environment
from vkbench_worker.containment.command import contained_command


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text, in windows of tokens, and how a model reads it."""

    windows: NDArray[np.integer]  # (windows, tokens)
    cache: str  # format of keys and values
    variant: str
    device: str  # selector
    bundle: str


def foreseen(
    model: Path,
    type: str,
    text: Text,
    limit_seconds: float,
    settings: Settings,
    tell_done: Callable[[int], None] = lambda done: None,
) -> Foreseen:
    """Have a file's model read all windows, quantised to a type unless that is "".

    `told` is called with how many are done. ComputationFailed says why there is no answer.
    """
    with TemporaryDirectory(prefix="vkbench-") as folder:
        given = Path(folder, "windows.npy")
        np.save(given, text.windows)
        arguments = [
            *("--model", str(model.resolve()), "--input", str(given), "--cache", text.cache),
            *("--type", type),
            *("--variant", text.variant, "--device", text.device, "--bundle", text.bundle),
        ]
        command = contained_command(
            "vkbench_worker.runner.perplexity", *arguments, reads=[given, model.resolve()]
        )
        lines = map(json.loads, answers(command, limit_seconds, environment.of(settings)))
        by, windows = next(lines), []
        for window in lines:
            windows.append(window)
            tell_done(len(windows))
    return Foreseen(
        losses=np.concatenate([window["losses"] for window in windows]),
        tokens_per_second=text.windows.shape[1] / median(window["seconds"] for window in windows),
        variant=by["variant"],
        device=by["device"],
    )
