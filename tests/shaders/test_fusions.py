"""Kernels that do several operations in one launch answer as these do one after the other."""

from __future__ import annotations

import numpy as np
from scipy.linalg import hadamard

from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array, Problem


def draw_inputs(posed: Problem) -> dict[str, Array]:
    return posed.kernel.inputs(posed)


def answer(posed: Problem, inputs: dict[str, Array]) -> Array:
    return posed.kernel.check.reference(posed, inputs, None)["y"]


def test_a_snake_adds_the_square_of_a_sine_by_channel() -> None:
    posed = problem("snake/f32/b1_c2_h1_w3")
    x = np.array([0, 0.5, -1, 0, 0.5, -1], np.float32).reshape(1, 2, 1, 3)
    rates, shares = (np.array(two, np.float32).reshape(1, 2, 1, 1) for two in ((1, np.pi), (2, 3)))
    found = answer(posed, {"x": x, "rates": rates, "shares": shares})
    sines = np.sin(x.astype(np.float64) * rates)
    assert np.allclose(found, x + sines * sines * shares)
    assert np.allclose(found[0, 1, 0], [0, 3.5, -1], atol=1e-6)


def test_only_as_many_arrays_are_added_as_the_case_says() -> None:
    three, all_eight = (problem(f"multi_add/f32/m5_k33/count={count}") for count in (3, 8))
    inputs = draw_inputs(all_eight)
    assert three.reads("x2")
    assert not three.reads("x3")
    assert np.allclose(answer(three, inputs), sum(inputs[f"x{place}"] for place in range(3)))
    total = sum(inputs[f"x{place}"].astype(np.float64) for place in range(8))
    assert np.allclose(answer(all_eight, inputs), total)


def test_a_hadamard_transform_is_a_product_with_the_matrix() -> None:
    posed = problem("hadamard/f32/m3_k64")
    x = draw_inputs(posed)["x"]
    found = answer(posed, {"x": x})
    assert np.allclose(found, x @ hadamard(64) / 8)
    assert np.allclose(answer(posed, {"x": found.astype(np.float32)}), x, atol=1e-5)


def test_a_normed_rope_is_rope_of_what_rms_norm_makes() -> None:
    how = "mode=neox,n_dims=32"
    posed = problem(f"rms_norm_rope/f32/b2_n3_h4_k64/eps=0.01,{how}")
    inputs = draw_inputs(posed)
    norm = problem("rms_norm/f32/b2_c3_h4_w64/eps=0.01,fused=mul")
    normed = answer(norm, {"x": inputs["x"], "weights": inputs["weights"]}).astype(np.float32)
    rope = problem(f"rope/f32/b2_n3_h4_k64/{how}")
    turned = answer(rope, inputs | {"x": normed})
    assert np.allclose(answer(posed, inputs), turned, atol=1e-5)


def test_experts_have_biases_and_shares_behind_their_products() -> None:
    shape = "q4_0/e4_u2_m5_n3_k256"
    posed = problem(f"mul_mat_vec_id/{shape}/then=add_mul")
    inputs = draw_inputs(posed)
    product = answer(problem(f"mul_mat_vec_id/{shape}"), inputs)
    added = product + inputs["biases"][inputs["ids"]]
    shared = inputs["shares"][:, :, None]
    assert np.allclose(answer(posed, inputs), added * shared)
    add, mul = (problem(f"mul_mat_vec_id/{shape}/then={how}") for how in ("add", "mul"))
    assert np.allclose(answer(add, inputs), added)
    assert np.allclose(answer(mul, inputs), product * shared)
