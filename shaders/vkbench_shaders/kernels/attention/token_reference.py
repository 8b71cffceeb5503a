"""Inputs and the float64 reference of attention to each sequence's new token."""

from __future__ import annotations

from typing import Final

import numpy as np

from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Problem
from vkbench_shaders.kernels.attention import caches
from vkbench_shaders.kernels.shared import rotation
from vkbench_shaders.kernels.shared.activations import sigmoid
from vkbench_shaders.quantisers import quants
from vkbench_shaders.rounded_factors import Floats

DIMS: Final = ("s", "h", "g", "n", "d")
MODES: Final = ("norm", "neox")
WEIGHTS: Final = ("q_weights", "k_weights")  # of norms


def turned_numbers(problem: Problem) -> int:
    """The numbers of a head that are turned."""
    return int(problem.params["n_dims"]) or problem.shape["d"]


def is_gated(problem: Problem) -> bool:
    """Whether queries have gates of results behind them."""
    return problem.params["gated"] == "yes"


def inputs(problem: Problem) -> dict[str, Array]:
    """Queries of different sizes; masks that hide blocks of positions."""
    s, n = problem.shape["s"], problem.shape["n"]
    angles = data.uniform(problem, "turns", -np.pi, np.pi).astype(np.float64)
    first, second = pairs(turned_numbers(problem), str(problem.params["mode"]))
    turns = np.zeros_like(angles)
    turns[:, first], turns[:, second] = np.cos(angles[:, first]), np.sin(angles[:, first])
    places = data.indices(problem, "ids", n).reshape(s)
    arrays = {
        "k": data.weights(problem, "k"),
        "v": data.weights(problem, "v"),
        "q": data.uniform(problem, "q", -4, 4),
        "new_k": data.uniform(problem, "new_k", -2, 2),
        "new_v": data.uniform(problem, "new_v", -2, 2),
        "turns": turns.astype(np.float32),
        "ids": (places + np.arange(s) * n).astype(np.int32),
        "mask": _mask(problem),
    }
    return {**arrays, **{name: data.uniform(problem, name, -2, 2) for name in WEIGHTS}}


def _mask(problem: Problem) -> Array:
    """Half of the stretches of 16 positions are hidden, but for the first."""
    mask = data.uniform(problem, "mask", -1.0, 1.0)
    stretch = np.arange(len(mask)) // 16
    mask[stretch % 4 == 1] = 0
    mask[stretch % 2 == 0] = -np.inf
    mask[:1] = 0
    return mask


def pairs(dims: int, mode: str) -> tuple[slice, slice]:
    """Where the first and the second numbers of pairs are."""
    return rotation.pairs(dims // 2, halves=mode != MODES[0])


def _turn(problem: Problem, inputs: Arrays, heads: Array) -> Floats:
    """Heads (s, heads, d) by the cosines and sines of their sequence."""
    places = pairs(turned_numbers(problem), str(problem.params["mode"]))
    turns = inputs["turns"].astype(np.float64)[:, None]
    cosine, sine = (turns[..., place] for place in places)
    return rotation.turn_pairs(heads.astype(np.float64), places, cosine, sine)


def _norm(problem: Problem, heads: Array, weights: Array) -> Floats:
    """Heads over their root mean square, times weights, if that is asked for."""
    exact = heads.astype(np.float64)
    if problem.params["norm"] != "rms":
        return exact
    eps = float(np.float32(problem.params["eps"]))
    over = np.sqrt((exact * exact).mean(axis=-1, keepdims=True) + eps)
    return np.asarray(exact / over * weights.astype(np.float64))


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Caches with the new rows; attention to these before the caches' format rounds them."""
    s, h, g, n, d = (problem.shape[dim] for dim in DIMS)
    new_k = _norm(problem, inputs["new_k"], inputs["k_weights"])
    new = {"k": _turn(problem, inputs, new_k), "v": inputs["new_v"].astype(np.float64)}
    caches_after = {}
    for name, exact in new.items():
        table = quants.dequantise(problem.types[name], inputs[name]).reshape(s * n, g, d)
        table[inputs["ids"]] = exact
        caches_after[name] = table.reshape(s, n, g, d)
    asked = _norm(problem, inputs["q"][..., :d], inputs["q_weights"])
    q = _turn(problem, inputs, asked).reshape(s, g, h // g, d)
    scores = np.einsum("sgrd,sngd->sgrn", q, caches_after["k"]) * caches.scale(problem)
    scores = caches.cap_scores(problem, scores) + inputs["mask"].astype(np.float64)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    y = np.einsum("sgrn,sngd->sgrd", weights, caches_after["v"]).reshape(s, h, d)
    if is_gated(problem):
        y *= sigmoid(inputs["q"][..., d:].astype(np.float64))
    return {**caches_after, "y": y}
