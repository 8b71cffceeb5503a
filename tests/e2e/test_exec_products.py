"""`vkbench exec` of products with batches and with experts, on a real device, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbench_shaders.quantisers import quants

Vkbench = Callable[..., Any]

RANDOM = np.random.Generator(np.random.Philox(key=2))


def numbers(fmt: str, *shape: int) -> tuple[Any, Any]:
    """A stored array and what it stands for."""
    stored = quants.quantise(fmt, RANDOM.standard_normal(shape, np.float32))
    return stored, quants.dequantise(fmt, stored)


def executed(vkbench: Vkbench, folder: Path, *words: str, **arrays: Any) -> Any:
    given, found = folder / "in.npz", folder / "out.npz"
    np.savez(given, **arrays)
    ended = vkbench("exec", *words, "--input", str(given), "--output", str(found))
    assert ended.code == 0, ended.err
    return np.load(found)["y"]


@pytest.mark.parametrize("x_format", ["f32", "f16", "q8_1"])
def test_each_matrix_of_weights_serves_several_of_x(
    vkbench: Vkbench, tmp_path: Path, x_format: str
) -> None:
    """The broadcast of ggml: matrix i of x meets matrix i // repeat of the weights."""
    stored, weights = numbers("q5_1", 3, 2, 33, 64)
    stored_x, x = numbers(x_format, 6, 6, 7, 64)
    params = [f"--param={name}" for name in ("batch3=3", "batch2=2", "repeat3=2", "repeat2=3")]
    words = "mul_mat", "-f", "q5_1", "--type", f"x={x_format}", *params
    y = executed(vkbench, tmp_path, *words, weights=stored, x=stored_x)
    assert y.shape == (6, 6, 7, 33)
    for outer in range(6):
        for inner in range(6):
            exact = x[outer, inner] @ weights[outer // 2, inner // 3].T
            np.testing.assert_allclose(y[outer, inner], exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["token", "expert"])
def test_tokens_meet_the_experts_that_ids_name(vkbench: Vkbench, tmp_path: Path, how: str) -> None:
    stored, weights = numbers("q8_0", 5, 9, 96)
    ids = np.array([[0, 4], [4, 1], [0, 1], [4, 0]], np.int32)  # none uses 2 or 3
    x = RANDOM.standard_normal((4, 96) if how == "token" else (4, 2, 96), np.float32)
    words = "mul_mat_id", "-f", "q8_0", "--param", f"x={how}"
    y = executed(vkbench, tmp_path, *words, weights=stored, x=x, ids=ids)
    each = x[:, None] if how == "token" else x
    exact = np.einsum("numk,nuk->num", weights[ids], np.broadcast_to(each, (4, 2, 96)))
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)


def test_an_expert_that_a_token_names_twice_is_made_twice(vkbench: Vkbench, tmp_path: Path) -> None:
    stored, weights = numbers("q4_0", 2, 3, 32)
    x, ids = RANDOM.standard_normal((70, 32), np.float32), np.ones((70, 2), np.int32)
    y = executed(vkbench, tmp_path, "mul_mat_id", "-f", "q4_0", weights=stored, x=x, ids=ids)
    for place in range(2):
        np.testing.assert_allclose(y[:, place], x @ weights[1].T, rtol=1e-4, atol=1e-4)
