"""Launches that prepare the next product run beside this one, and change no bit of what is left.

Prompts have such launches on drivers with cooperative matrices: test_new_lavapipe.py has one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planted_model import VOCABULARY, Tiny, write_model
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.hyper import hyper_of
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PROMPT = np.arange(70) * 5 % VOCABULARY


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny.wide(fmt="q4_K", layers=3),
        Tiny.wide(fmt="iq2_xs,q6_K,f16", layers=3),
        Tiny.wide(arch="qwen3moe", fmt="q4_K", experts=4),
    ],
    ids=["dense", "tables", "experts"],
)
def test_what_runs_ahead_changes_no_bit(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny: Tiny,
) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", tiny))
    found = []
    for is_by_step in (False, True):
        if is_by_step:  # as if no code told what it touches
            monkeypatch.setattr("vkbench_worker.models.levels.accesses", lambda code: None)
        with Model(lavapipe, bundle, file, hyper_of(file), Options(context=128)) as model:
            logits = [model.logits(PROMPT), model.logits(PROMPT[::-1])]
            levels = model.prepare_reading(len(PROMPT), len(PROMPT)).schedule.levels
            ahead = sum(each.is_ahead for level in levels for each in level)
            found.append((logits, len(levels), ahead))
    (logits, count, ahead), (wanted, most, none) = found
    np.testing.assert_array_equal(logits, wanted)
    assert none == 0
    if "coopmat" in lavapipe.facts.features:
        assert ahead > 0
        assert count < most
