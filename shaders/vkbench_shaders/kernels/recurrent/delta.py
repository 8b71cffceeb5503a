"""Gated delta rule: linear attention whose state learns what it did not know."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Check, Forms, Kernel, Layout, Param, Problem, Work
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


def recurrence_of(problem: Problem) -> Recurrence:
    by_key = problem.params["gate"] == "lane"
    s, t, h, g, d = (problem.shape[dim] for dim in "sthgd")
    return Recurrence(
        sequences=s,
        tokens=t,
        heads=h,
        columns=d,
        keys=d,
        key_heads=g,
        vectors=2 + by_key,
        each=by_key,
        scale=1 / sqrt(d),
    )


def layout(problem: Problem, binding: str) -> Layout:
    """A gate a head, unless there is one for each key."""
    shape = problem.full_shape(binding)
    if binding == "gate" and problem.params["gate"] == "head":
        shape = (*shape[:-1], 1)
    return Layout.contiguous(shape)


def inputs(problem: Problem) -> dict[str, Array]:
    """Gates from -2 to 0: decays e^gate."""
    return {
        "v": data.bell(problem, "v"),
        "state": data.uniform(problem, "state", -0.5, 0.5),
        "k": unit(problem, "k"),
        "q": unit(problem, "q"),
        "gate": -(data.uniform(problem, "gate", 0.0, 1.4) ** 2),
        "beta": data.uniform(problem, "beta", 0.0, 1.0),
    }


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    heads = np.arange(problem.shape["h"]) if rows is None else rows
    shared = {name: inputs[name][:, :, heads % problem.shape["g"]] for name in "kq"}
    own = {name: inputs[name][:, :, heads] for name in ("v", "gate", "beta")}
    state = inputs["state"][:, heads].astype(np.float64)
    scale = 1 / sqrt(problem.shape["d"])

    def step(state: Numbers, token: Mapping[str, Numbers]) -> Numbers:
        state *= np.exp(token["gate"])[:, :, None, :]
        rest = token["v"] - read(state, token["k"])
        state += outer(rest * token["beta"][..., None], token["k"])
        return read(state, token["q"]) * scale

    y = walk_tokens(step, state, exact({**shared, **own}), problem.shape["t"])
    return {"y": y, "next_state": state}


_HEADS = (
    "s1_t1_h1_g1_d16",
    "s2_t7_h3_g3_d16",
    "s1_t33_h2_g1_d32",
    "s3_t5_h4_g2_d64",
    "s1_t65_h2_g2_d64",
    "s1_t19_h6_g2_d128",
)
_SHAPES: tuple[str, ...] = (
    *_HEADS,
    *(f"{shape}/gate=lane" for shape in _HEADS),
    "s1_t1_h32_g32_d128",
    "s1_t0_h2_g2_d32",
    "s0_t3_h2_g2_d32",
    "s1_t1024_h1_g1_d16",
    "s1_t300_h1_g1_d128/gate=lane",
)
_TIMED = (
    *(f"s1_t{t}_h32_g32_d128" for t in (1, 64, 256, 512, 1024)),
    "s1_t1_h16_g16_d64",
    *(f"s1_t{t}_h4_g4_d128" for t in (64, 256, 512, 1024)),
    *(f"s1_t{t}_h32_g32_d128/gate=lane" for t in (1, 64)),
)


GATED_DELTA_NET = Kernel(
    name="gated_delta_net",
    description="Gated delta rule: S' = e^gate S, S = S' + beta k (v - S' k), y = S q / sqrt(d).",
    group="recurrent",
    dims=("s", "t", "h", "g", "d"),
    bindings=(
        *ends("sthd", "shdd", "a row a value, keys within"),
        binding("k", "stgd", "keys, which head i shares with those i modulo g"),
        binding("q", "stgd", "queries, as the keys"),
        binding("gate", "sthd", "logarithms of decays: for each head (1 instead of d) or key"),
        binding("beta", "sth", "part of what is new that is learnt"),
    ),
    params={
        "gate": Param(
            default="head",
            choices=("head", "lane"),
            description="whether a head has one gate, or each of its keys has (KDA)",
        )
    },
    forms=Forms(layout=layout, empty=("s", "t")),
    variants=variants("gated_delta", recurrence_of),
    inputs=inputs,
    check=Check(reference=reference, rows="h"),
    work=Work(flops=lambda problem: flops(problem, 7)),
    cases=CaseList(lambda: cases("gated_delta_net", _SHAPES)),
    timed=CaseList(lambda: cases("gated_delta_net", _TIMED)),
)
