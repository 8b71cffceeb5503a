"""A model's file as if it were of another type."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from planted_model import Tiny, write_model
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.requantised import retype_file
from vkbench_shaders.quantisers.quantiser import quantise_weights
from vkbench_shaders.quantisers.quants import dequantise


def test_matrices_are_quantised_as_the_type_says(tmp_path: Path) -> None:
    """As by llama.cpp: values and the output matrix better than the rest, norms as they are."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.wide(groups=1, fmt="f16")))
    found = retype_file(file, "q4_K_M")
    formats = {name: tensor.format for name, tensor in found.tensors.items() if tensor.format}
    assert {name: fmt.name for name, fmt in formats.items() if not name.startswith("blk.0")} == {
        "token_embd.weight": "q4_K",
        "blk.1.attn_norm.weight": "f32",
        "blk.1.attn_q.weight": "q4_K",
        "blk.1.attn_k.weight": "q4_K",
        "blk.1.attn_v.weight": "q6_K",
        "blk.1.attn_output.weight": "q4_K",
        "blk.1.ffn_norm.weight": "f32",
        "blk.1.ffn_gate.weight": "q4_K",
        "blk.1.ffn_up.weight": "q4_K",
        "blk.1.ffn_down.weight": "q6_K",
        "output_norm.weight": "f32",
        "output.weight": "q6_K",
    }
    for name, fmt in formats.items():
        old = file.read(name)
        numbers = dequantise("f16", old).astype(np.float32) if old.ndim > 1 else old
        wanted = quantise_weights(fmt.name, numbers) if old.ndim > 1 else old
        np.testing.assert_array_equal(found.read(name), wanted)


def test_rows_are_those_of_the_whole(tmp_path: Path) -> None:
    file = retype_file(open_gguf(write_model(tmp_path / "model.gguf", Tiny(fmt="q8_0"))), "q4_0")
    whole = file.read("token_embd.weight")
    np.testing.assert_array_equal(file.rows("token_embd.weight", 3, 5), whole[3:8])
    assert file.tensor("token_embd.weight").bytes == whole.nbytes
