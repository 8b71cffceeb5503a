"""References of optimisers: what their first steps and Muon's update have to be."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernels.training.muon import orthogonal

X, G = np.array([1, -2, 3, 0.5], np.float32), np.array([0.5, -0.25, 1e-3, 0], np.float32)
NOTHING = np.zeros(4, np.float32)


def step(case: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    posed = problem(case)
    return posed.kernel.check.reference(posed, arrays, None)


@pytest.mark.parametrize(("name", "kept"), [("adam", 1.0), ("adamw", 1 - 0.1 * 0.01)])
def test_the_first_step_goes_by_the_rate_whatever_the_gradient(name: str, kept: float) -> None:
    """The moments' bias is taken out: m / v^1/2 is the gradient's sign."""
    found = step(f"{name}/f32/n4/rate=0.1", x=X, g=G, m=NOTHING, v=NOTHING)
    np.testing.assert_allclose(found["next_x"], X * kept - 0.1 * np.sign(G), rtol=1e-5)
    np.testing.assert_allclose(found["next_m"], 0.1 * G.astype(float))
    np.testing.assert_allclose(found["next_v"], 0.001 * G.astype(float) ** 2)


def test_adam_sees_decay_as_gradient_and_adamw_does_not() -> None:
    arrays = {"x": X, "g": NOTHING, "m": NOTHING, "v": NOTHING}
    changed = "rate=0.1,decay=0.5"
    coupled = step(f"adam/f32/n4/{changed}", **arrays)["next_x"]
    np.testing.assert_allclose(coupled, X - 0.1 * np.sign(X), rtol=1e-6)
    apart = step(f"adamw/f32/n4/{changed}", **arrays)["next_x"]
    np.testing.assert_allclose(apart, X * 0.95)


def test_sgd_descends_and_decays() -> None:
    found = step("sgd/f32/n4/rate=0.1,decay=0.5", x=X, g=G)["next_x"]
    np.testing.assert_allclose(found, X * 0.95 - 0.1 * G.astype(float))


@pytest.mark.parametrize("shape", [(48, 96), (96, 48), (1, 7)])
def test_muon_s_update_is_nearly_orthogonal(shape: tuple[int, int]) -> None:
    random = np.random.Generator(np.random.Philox(key=3))
    matrix = random.standard_normal(shape)
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    found = orthogonal(matrix)
    sizes = np.linalg.svd(found, compute_uv=False)
    assert sizes.min() > 0.65
    assert sizes.max() < 1.25
    turned = left.T @ found @ right.T  # in the matrix's own directions
    np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-9)
    assert (np.diag(turned) > 0).all()
