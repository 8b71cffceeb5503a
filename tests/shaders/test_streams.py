"""Residual streams are mixed as models have it, and positions scored by what a head sees."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench.errors import UsageError
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array, Problem


def answer(posed: Problem, **changes: Array) -> Array:
    inputs = posed.kernel.inputs(posed) | changes
    return posed.kernel.check.reference(posed, inputs, None)["y"]


def test_what_streams_give_and_get_adds_up_to_one() -> None:
    shares = answer(problem("dsv4_hc_comb/f32/t129_s4"))
    assert (shares > 0).all()
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-4)
    assert np.allclose(shares.sum(axis=2), 1, atol=1e-2)


def test_one_round_leaves_new_streams_alone_at_one() -> None:
    shares = answer(problem("dsv4_hc_comb/f32/t17_s4/iterations=1"))
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-4)
    assert not np.allclose(shares.sum(axis=2), 1, atol=1e-2)


def test_only_four_streams_are_balanced() -> None:
    with pytest.raises(UsageError, match="4 streams are balanced, not 3"):
        problem("dsv4_hc_comb/f32/t1_s3").array_shape("mixes")


def test_each_stream_into_itself_is_no_mixing() -> None:
    mixed, plain = (problem(f"dsv4_hc_post/f32/t2_s3_m5{how}") for how in ("", "/mixing=none"))
    each = {name: mixed.kernel.inputs(mixed)[name] for name in ("x", "residual", "post")}
    same = np.broadcast_to(np.eye(3, dtype=np.float32), (2, 3, 3))
    assert np.allclose(answer(mixed, **each, comb=same), answer(plain, **each))


def test_open_gates_are_weights_of_one() -> None:
    gated, weighed = problem("dsv4_hc_pre_gated/f32/t2_s3_m5"), problem("dsv4_hc_pre/f32/t2_s3_m5")
    x = gated.kernel.inputs(gated)["x"]
    opened = answer(gated, x=x, gate=np.full((2, 3, 5), 40, np.float32))
    assert np.allclose(opened, answer(weighed, x=x, weights=np.ones((2, 3), np.float32)))


def test_a_position_counts_where_a_head_sees_it_and_no_mask_hides_it() -> None:
    posed = problem("lightning_indexer/f32/s1_t1_h2_n3_k4")
    q = np.array([[[[1, 0, 0, 0], [-1, 0, 0, 0]]]], np.float32)
    k = np.array([[[2, 9, 9, 9], [-4, 9, 9, 9], [1, 0, 0, 0]]], np.float32)
    weights = np.array([[[10, 1]]], np.float32)
    mask = np.array([[[0, 0.5, -np.inf]]], np.float16)
    scores = answer(posed, q=q, k=k, weights=weights, mask=mask)
    assert scores.tolist() == [[[20, 4.5, -np.inf]]]


def test_timesteps_turn_by_each_frequency() -> None:
    embedded = answer(
        problem("timestep_embedding/f32/n1_d5/max_period=100"), x=np.array([2], np.float32)
    )
    angles = np.array([2, 0.2])
    assert np.allclose(embedded, [[*np.cos(angles), *np.sin(angles), 0]])
