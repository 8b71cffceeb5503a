"""How well a model on a CPU driver foresees tokens, against its float64 reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planted_model import VOCABULARY, Tiny, write_model
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.perplexity import losses, perplexity
from vkbench_shaders.models.reference import Reference
from vkbench_worker.models.foreseeing import NotFinite, foreseen
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runtime.vulkan.device import VulkanDevice

CONTEXT = 24


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_losses_are_those_of_the_reference(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
) -> None:
    """Window after window, each in parts of 7 tokens, over what the one before left in caches."""
    monkeypatch.setattr("vkbench_shaders.models.cases.PART", 7)
    tiny = Tiny(arch=arch, groups=4 if arch == "gpt2" else 2)
    file = open_gguf(write_model(tmp_path / "model.gguf", tiny))
    hyper = hyper_of(file, CONTEXT)
    windows = np.random.default_rng(0).integers(0, VOCABULARY, (3, CONTEXT))
    with Model(lavapipe, bundle, file, hyper, Options(context=CONTEXT)) as model:
        found = [foreseen(model, window) for window in windows]
    for window, (read, seconds) in zip(windows, found, strict=True):
        logits = Reference(file=file, hyper=hyper).logits(window)
        half = CONTEXT // 2
        wanted = losses(logits[half:-1], window[half + 1 :])
        assert np.abs(read - wanted).max() < 1e-3
        assert perplexity(read).value == pytest.approx(perplexity(wanted).value, rel=1e-4)
        assert 0 < seconds < 60


def test_logits_that_are_no_numbers_are_an_error(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny())
    file = open_gguf(path)
    with path.open("r+b") as opened:
        opened.seek(file.tensor("output_norm.weight").offset)
        opened.write(np.full(4, np.nan, np.float32).tobytes())
    hyper = hyper_of(file, CONTEXT)
    with (
        Model(lavapipe, bundle, file, hyper, Options(context=CONTEXT)) as model,
        pytest.raises(NotFinite, match="logits of positions 12 to 23 are NaN or Inf"),
    ):
        foreseen(model, np.arange(CONTEXT))
