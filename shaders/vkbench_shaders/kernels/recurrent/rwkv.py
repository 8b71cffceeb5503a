"""Linear attention with a state: gated linear attention, RWKV 6 and 7, as ggml defines them.

A state is changed by a token before the token reads it, save in RWKV 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import numpy as np

from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Check, Forms, Kernel, Param, Problem, Work
from vkbench_shaders.kernels.recurrent.recurrence import (
    Numbers,
    Recurrence,
    binding,
    cases,
    ends,
    exact,
    flops,
    outer,
    read,
    unit,
    variants,
    walk_tokens,
)


def _of(problem: Problem, vectors: int, scale: float = 1.0) -> Recurrence:
    s, t, h, d = (problem.shape[dim] for dim in "sthd")
    return Recurrence(
        sequences=s,
        tokens=t,
        heads=h,
        columns=d,
        keys=d,
        key_heads=h,
        vectors=vectors,
        scale=scale,
    )


def _read_heads(inputs: Arrays, rows: Array | None) -> dict[str, Numbers]:
    """Inputs in double precision, of some heads if given."""
    arrays = exact(inputs)
    if rows is None:
        return arrays
    axes = {"state": 1, "first": 0}
    return {name: np.take(array, rows, axes.get(name, 2)) for name, array in arrays.items()}


def gla_of(problem: Problem) -> Recurrence:
    return _of(problem, 3, scale=float(problem.params["scale"]) or 1 / sqrt(problem.shape["d"]))


def gla_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    given = _read_heads(inputs, rows)
    state = given.pop("state").swapaxes(-1, -2).copy()
    scale = float(problem.params["scale"]) or 1 / sqrt(problem.shape["d"])

    def step(state: Numbers, token: Mapping[str, Numbers]) -> Numbers:
        state *= token["decay"][:, :, None, :]
        state += outer(token["v"], token["k"])
        return read(state, token["q"]) * scale

    y = walk_tokens(step, state, given, problem.shape["t"])
    return {"y": y, "next_state": state.swapaxes(-1, -2)}


def wkv6_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    given = _read_heads(inputs, rows)
    state, first = given.pop("state").swapaxes(-1, -2).copy(), given.pop("first")

    def step(state: Numbers, token: Mapping[str, Numbers]) -> Numbers:
        y = read(state, token["r"])
        y += token["v"] * (first * token["k"] * token["r"]).sum(axis=-1, keepdims=True)
        state *= token["decay"][:, :, None, :]
        state += outer(token["v"], token["k"])
        return y

    y = walk_tokens(step, state, given, problem.shape["t"])
    return {"y": y, "next_state": state.swapaxes(-1, -2)}


def wkv7_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    given = _read_heads(inputs, rows)
    state = given.pop("state")

    def step(state: Numbers, token: Mapping[str, Numbers]) -> Numbers:
        projected = read(state, token["a"])
        state *= token["decay"][:, :, None, :]
        state += outer(token["v"], token["k"]) + outer(projected, token["b"])
        return read(state, token["r"])

    y = walk_tokens(step, state, given, problem.shape["t"])
    return {"y": y, "next_state": state}


def _inputs(low: float) -> Callable[[Problem], dict[str, Array]]:
    """Decays from `low` to 1."""

    def inputs(problem: Problem) -> dict[str, Array]:
        names = (b.name for b in problem.kernel.bindings if b.is_input)
        return {name: _draw_input(problem, name, low) for name in names}

    return inputs


def _draw_input(problem: Problem, name: str, low: float) -> Array:
    if name == "decay":
        return data.uniform(problem, name, low, 1.0)
    return data.uniform(problem, name, -1.0, 1.0)


def wkv7_inputs(problem: Problem) -> dict[str, Array]:
    """b takes some of a's direction out of the state, as in a model."""
    arrays = _inputs(0.545)(problem)
    a = unit(problem, "a")
    part = data.uniform(problem, "b", 0.0, 1.0)
    return {**arrays, "a": a, "b": -a * part}


_TOKENS = (
    "s1_t1_h1_d16",
    "s2_t7_h3_d64",
    "s1_t33_h2_d32",
    "s3_t5_h2_d128",
    "s1_t129_h2_d64",
    "s4_t1_h32_d64",
    "s1_t0_h2_d64",
    "s0_t3_h2_d64",
    "s1_t1024_h1_d16",
)
_TIMED = tuple(f"s{s}_t{t}_h32_d64" for t in (1, 32, 128) for s in (1, 4))
_KEYS = "a row a key, values within"


GATED_LINEAR_ATTN = Kernel(
    name="gated_linear_attn",
    description="Gated linear attention: S = decay S + k v, y = scale S q.",
    group="recurrent",
    dims=("s", "t", "h", "d"),
    bindings=(
        *ends("sthd", "shdd", _KEYS),
        binding("k", "sthd", "keys"),
        binding("q", "sthd", "queries"),
        binding("decay", "sthd", "what stays of the state, for each key"),
    ),
    params={"scale": Param(default=0.0, description="of results; 0: 1 / sqrt(d)")},
    variants=variants("gated_linear", gla_of),
    inputs=_inputs(0.6),
    check=Check(reference=gla_reference, rows="h"),
    work=Work(flops=lambda problem: flops(problem, 5)),
    forms=Forms(empty=("s", "t")),
    cases=CaseList(lambda: cases("gated_linear_attn", (*_TOKENS, "s1_t9_h3_d64/scale=0.5"))),
    timed=CaseList(lambda: cases("gated_linear_attn", _TIMED)),
)

RWKV_WKV6 = Kernel(
    name="rwkv_wkv6",
    description="RWKV 6: y = (S + first k v) r, then S = decay S + k v.",
    group="recurrent",
    dims=("s", "t", "h", "d"),
    bindings=(
        *ends("sthd", "shdd", _KEYS),
        binding("k", "sthd", "keys"),
        binding("r", "sthd", "receptance: what reads the state"),
        binding("decay", "sthd", "what stays of the state, for each key"),
        binding("first", "hd", "how much a token sees of itself"),
    ),
    variants=variants("wkv6", lambda problem: _of(problem, 3)),
    inputs=_inputs(0.3),
    check=Check(reference=wkv6_reference, rows="h"),
    work=Work(flops=lambda problem: flops(problem, 7)),
    forms=Forms(empty=("s", "t")),
    cases=CaseList(lambda: cases("rwkv_wkv6", _TOKENS)),
    timed=CaseList(lambda: cases("rwkv_wkv6", _TIMED)),
)

RWKV_WKV7 = Kernel(
    name="rwkv_wkv7",
    description="RWKV 7: S = decay S + k v + b (S a), y = S r.",
    group="recurrent",
    dims=("s", "t", "h", "d"),
    bindings=(
        *ends("sthd", "shdd", "a row a value, keys within"),
        binding("k", "sthd", "keys"),
        binding("r", "sthd", "receptance: what reads the state"),
        binding("decay", "sthd", "what stays of the state, for each key"),
        binding("a", "sthd", "what the state is read by"),
        binding("b", "sthd", "where what was read is put"),
    ),
    variants=variants("wkv7", lambda problem: _of(problem, 5)),
    inputs=wkv7_inputs,
    check=Check(reference=wkv7_reference, rows="h"),
    work=Work(flops=lambda problem: flops(problem, 8)),
    forms=Forms(empty=("s", "t")),
    cases=CaseList(lambda: cases("rwkv_wkv7", _TOKENS)),
    timed=CaseList(lambda: cases("rwkv_wkv7", _TIMED)),
)

RWKV = (RWKV_WKV6, RWKV_WKV7, GATED_LINEAR_ATTN)
