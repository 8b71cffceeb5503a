"""Queries, caches of keys and values, and masks: inputs of attention, and its reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders import quants
from vkbench_shaders.inputs import blocks, data, noise
from vkbench_shaders.kernel import Array, Arrays, Problem
from vkbench_shaders.rounded_factors import Rounding

Floats = NDArray[np.float64]

_HIDDEN_EVERY = 7  # mask=blocks: of so many queries one sees nothing: the one at _HIDDEN_AT
_HIDDEN_AT = 3
_BLOCK = (16, 64)  # queries and positions that are hidden together
_LARGEST_SINK = 10.0


def inputs(problem: Problem) -> dict[str, Array]:
    """Rows of queries differ in size, so that weights are even or peaked; positions do not."""
    quantised = problem.format("k").quantised
    return {
        "k": _even_blocks(problem) if quantised else data.weights(problem, "k"),
        "v": data.weights(problem, "v"),
        "q": _queries(problem),
        "mask": _mask(problem),
        "sinks": data.uniform(problem, "sinks", -_LARGEST_SINK, _LARGEST_SINK),
    }


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """softmax(scale q k^T + mask) v for each head; 0 where a query sees nothing."""
    seen = _Seen.of(problem, inputs, rows)
    y = np.zeros((*seen.q.shape[:3], problem.shape["e"]))
    for batch, head in np.ndindex(*seen.q.shape[:2]):
        _, v, weights = seen.head(problem, batch, head)
        y[batch, head] = weights @ v
    return {"y": y}


def deviations(
    problem: Problem, inputs: Arrays, rows: Array | None, rounding: Rounding
) -> dict[str, Array]:
    """RMS errors of results where queries, keys, weights and values are rounded.

    To first order a score that is off by d changes a result by w (v - y) d. Weights are rounded
    relative to the largest of a part; those below the least normal number lose digits.
    """
    seen = _Seen.of(problem, inputs, rows)
    of_k, of_v = (rounding.shares(problem.types[name]) for name in "kv")
    of_q, least = rounding.share, rounding.least_step
    y = np.zeros((*seen.q.shape[:3], problem.shape["e"]))
    for batch, head in np.ndindex(*seen.q.shape[:2]):
        q, (k, v, weights) = seen.q[batch, head], seen.head(problem, batch, head)
        of_scores = (of_q**2 + of_k**2) * scale(problem) ** 2 * (q**2 @ (k**2).T)
        if problem.params["softcap"]:
            of_scores *= _cap_slopes(problem, q @ k.T) ** 2
        largest = weights.max(axis=-1, keepdims=True, initial=0)
        of_terms = weights**2 * (of_q**2 + of_v**2) + (least * largest) ** 2
        results, scored = weights @ v, weights**2 * of_scores
        # scored @ (v - results)^2, whose square depends on the query too
        variance = scored @ v**2 - 2 * results * (scored @ v)
        variance += results**2 * scored.sum(axis=-1, keepdims=True)
        y[batch, head] = np.maximum(variance, 0) + of_terms @ v**2
    return {"y": np.sqrt(y)}


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """Arrays as numbers, of the queries that are asked for."""

    q: Floats
    k: Floats
    v: Floats
    mask: Floats
    sinks: Array

    @classmethod
    def of(cls, problem: Problem, inputs: Arrays, rows: Array | None) -> _Seen:
        k, v = (quants.dequantise(problem.types[name], inputs[name]) for name in "kv")
        q, mask = (inputs[name].astype(np.float64) for name in ("q", "mask"))
        if rows is not None:
            q = q[:, :, rows]
            mask = mask if problem.params["mask"] == "none" else mask[rows]
        return cls(q=q, k=k, v=v, mask=mask, sinks=inputs["sinks"])

    def head(self, problem: Problem, batch: int, head: int) -> tuple[Floats, Floats, Floats]:
        """Keys and values of a head, and the weights of its positions, whose sum is 1 at most."""
        group = head * problem.shape["g"] // problem.shape["h"]
        k, v = self.k[batch, group], self.v[batch, group]
        scores = _scores(problem, self.q[batch, head] @ k.T, self.mask, head)
        weights, total = _weights(problem, scores, self.sinks, head)
        return k, v, np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def scale(problem: Problem) -> float:
    """What products of queries and keys are multiplied with."""
    return float(problem.params["scale"]) or 1 / sqrt(problem.shape["d"])


def cap_scores(problem: Problem, scores: Floats) -> Floats:
    """Scores as the parameter `softcap` bends them."""
    cap = float(problem.params["softcap"])
    return cap * np.tanh(scores / cap) if cap else scores


def _cap_slopes(problem: Problem, products: Floats) -> Floats:
    """How much scores change with the products that the parameter `softcap` bends them from."""
    cap = float(problem.params["softcap"])
    return 1 - (cap_scores(problem, products * scale(problem)) / cap) ** 2


def _scores(problem: Problem, products: Floats, mask: Floats, head: int) -> Floats:
    scores = cap_scores(problem, products * scale(problem))
    if problem.params["mask"] != "none":
        scores = scores + _slope(problem, head) * mask
    return scores


def _weights(problem: Problem, scores: Floats, sinks: Array, head: int) -> tuple[Floats, Floats]:
    """Weights of positions, and their sum, to which a sink adds; 0 where nothing is seen."""
    sink = float(sinks[head]) if problem.params["sinks"] == "yes" else -np.inf
    highest = np.maximum(scores.max(axis=-1, keepdims=True, initial=sink), np.finfo(float).min)
    weights = np.exp(scores - highest)
    return weights, weights.sum(axis=-1, keepdims=True) + np.exp(sink - highest)


def _slope(problem: Problem, head: int) -> float:
    """ALiBi's factor of a head: as in ggml, heads past a power of two lie between the others."""
    bias, heads = float(problem.params["max_bias"]), problem.shape["h"]
    power = 1 << (heads.bit_length() - 1)
    step = head + 1 if head < power else head - power + 0.5
    return float(2.0 ** (-bias * step / power))


def _even_blocks(problem: Problem) -> Array:
    """Random bits under scales of one size: no position is more than a few others."""
    fmt, shape = problem.format("k"), problem.array_shape("k")
    stored = noise.raw(problem.seed("k"), prod(shape)).reshape(-1, fmt.bytes)
    for number, field in enumerate(fmt.scales):
        scales = noise.bell(problem.seed(f"k.scales{number}"), (len(stored),))
        halves = (scales * np.float32(field.unit)).astype("<f2")
        blocks.write_scale(stored, field, halves.view("<u2"))
    return stored.reshape(shape)


def _queries(problem: Problem) -> Array:
    shape = problem.array_shape("q")
    values = noise.bell(problem.seed("q"), (prod(shape[:-1]), shape[-1]))
    values *= 4 * noise.rows(problem.seed("q.rows"), len(values))
    return values.reshape(shape)


def _mask(problem: Problem) -> Array:
    """Of causal masks the last query sees everything; blocks are hidden, or add nothing, too."""
    shape = problem.array_shape("mask")
    if problem.params["mask"] == "none":
        return np.zeros(shape, np.float16)
    ahead = np.arange(shape[1]) - np.arange(shape[0])[:, None] > shape[1] - shape[0]
    if problem.params["mask"] == "causal":
        return np.where(ahead, np.float16(-np.inf), np.float16(0))
    mask = data.uniform(problem, "mask", -1.0, 1.0)
    kinds = _blocks(problem, shape)
    mask[kinds == 0] = -np.inf
    mask[kinds == 1] = 0
    mask[:, :1] = 0  # that something is seen
    mask[ahead] = -np.inf
    mask[_HIDDEN_AT::_HIDDEN_EVERY] = -np.inf
    return mask


def _blocks(problem: Problem, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """A number below 5 for each block of a mask, at each of its places."""
    counts = [-(-size // block) for size, block in zip(shape, _BLOCK, strict=True)]
    kinds = noise.raw(problem.seed("mask.blocks"), prod(counts)).reshape(counts) % 5
    return np.kron(kinds, np.ones(_BLOCK, np.uint8))[: shape[0], : shape[1]]
