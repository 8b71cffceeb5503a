"""What formats lose: of weights that scatter as said, and of a file's matrices, a row each."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from planted_model import Tiny, write_model
from vkbench.errors import UsageError
from vkbench_shaders.quantisers.losses import FORMATS, Loss, Sample, draw_samples, losses, of_file
from vkbench_shaders.quantisers.quants import dequantise, quantise

CHOSEN = ("f16", "q8_0", "q6_K", "q5_K", "q4_K", "q2_K", "iq2_xxs")


def by_name(found: list[Loss]) -> dict[str, Loss]:
    return {loss.format.name: loss for loss in found}


@pytest.mark.parametrize("sample", draw_samples(16, 1), ids=lambda sample: sample.kind)
def test_fewer_bits_lose_more(sample: Sample) -> None:
    found = [loss.output_error or 0 for loss in losses([sample], CHOSEN, 1)]
    assert found == sorted(found)
    assert all(after > 1.2 * before for before, after in pairwise(found))


def test_every_format_of_weights_is_tried() -> None:
    values = draw_samples(2, 0)[0].values[:, :256]
    found = by_name(list(losses([Sample(kind="few", values=values)], FORMATS, 0)))
    assert not [loss.trouble for loss in found.values() if loss.trouble]
    assert all(0 < (loss.output_error or 0) < 1.3 for loss in found.values())
    assert {loss.quantiser for loss in found.values()} == {"", "gguf", "vkbench"}


def test_the_error_is_that_of_a_product_with_such_weights() -> None:
    values = draw_samples(32, 0)[1].values
    [loss] = losses([Sample(kind="any", values=values)], ["q4_0"], 0)
    other = np.random.default_rng(5).standard_normal((values.shape[1], 500))
    kept = dequantise("q4_0", quantise("q4_0", values))
    off, whole = (kept - values) @ other, values @ other
    assert loss.output_error == pytest.approx(np.sqrt((off**2).sum() / (whole**2).sum()), rel=0.05)
    assert loss.weight_error == pytest.approx(
        np.linalg.norm(kept - values) / np.linalg.norm(values)
    )


def test_what_cannot_be_quantised_says_why() -> None:
    large = np.full((4, 256), 1e9, np.float32)
    [loss] = losses([Sample(kind="large", values=large)], ["q4_K"], 0)
    assert (loss.output_error, loss.trouble[:25]) == (None, "the weights are too large")


def test_the_kinds_of_a_file_are_its_matrices(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny.wide(layers=3, fmt="f16"))
    kinds = {sample.kind: sample.values for sample in of_file(path, 8)}
    assert {"token_embd.weight", "attn_q.weight", "ffn_down.weight"} < kinds.keys()
    assert not any("norm" in kind for kind in kinds)
    assert kinds["ffn_down.weight"].shape == (8, 256)
    chosen = of_file(path, 8, ["ATTN_*"])
    assert [sample.kind for sample in chosen] == [kind for kind in kinds if "attn" in kind]
    with pytest.raises(UsageError, match="unknown kind of matrix 'attn_w'"):
        of_file(path, 8, ["attn_w"])


def test_a_row_that_is_no_block_says_so(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny(fmt="f32"))
    found = by_name(list(losses(of_file(path, 8, ["attn_q.weight"]), ["q8_0", "q4_K"], 0)))
    assert found["q8_0"].output_error
    assert found["q4_K"].trouble == "rows of 64 are no whole blocks of q4_K, which hold 256"


def test_a_file_of_blocks_has_nothing_to_lose(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny.wide(fmt="q8_0", layers=1))
    with pytest.raises(UsageError, match=r"has no matrix in f32, f16, bf16"):
        of_file(path, 8)
