"""The float64 reference of models has what llama.cpp's library found: logits, or an embedding.

The device is held to the reference, and this holds the reference to a program that others wrote.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recorded_logits import MODELS, TOKENS, recorded
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.architectures import ARCHITECTURES
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.reference import Reference

MOST = 5e-7  # llama.cpp sums in float32: over 46 layers that adds up to 1.7e-7
MOST_RECURRENT = 5e-13  # of two layers with states, by as many steps: up to 3e-13


def test_every_architecture_is_recorded() -> None:
    assert {model.tiny.arch for model in MODELS.values()} == set(ARCHITECTURES)
    assert set(recorded()) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    file = open_gguf(MODELS[name].write(tmp_path / "model.gguf"))
    hyper = hyper_of(file)
    reference = Reference(file=file, hyper=hyper)
    encodes = hyper.architecture.encodes
    found = reference.embedding(TOKENS) if encodes else reference.logits(TOKENS)
    theirs = recorded()[name].astype(np.float64)
    error = np.square(found - theirs).sum() / np.square(theirs).sum()
    assert error < (MOST if hyper.architecture.has_attention else MOST_RECURRENT), (
        f"nmse {error:.2g}"
    )
