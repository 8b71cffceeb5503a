"""Hyper-connections: several residual streams mixed into a layer's input, and mixed anew behind it.

As DeepSeek V4 and models after it have them. A token has s streams of m numbers. Before a layer
`pre` makes one vector of them, behind it `post` spreads the layer's result over new streams. What
`comb` makes of raw numbers says how much of each old stream goes into each new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Push,
    Shapes,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import MOST_DIVIDED, divisor

THREADS = 128
MOST_STREAMS = 8  # of which a thread has the numbers at one place
COMBINED = 4  # streams whose mixing is balanced
GROUP = "streams"
ONE = ("f32",)

Numbers = NDArray[np.float64]


def _read_tokens(inputs: Arrays, rows: Array | None, *names: str) -> list[Numbers]:
    """Inputs of all tokens, or of some, as f64."""
    chosen = slice(None) if rows is None else rows
    return [inputs[name][chosen].astype(np.float64) for name in names]


def sum_streams(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, weights = _read_tokens(inputs, rows, "x", "weights")
    return {"y": np.einsum("tsm,ts->tm", x, weights)}


def sum_gated(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, gate = _read_tokens(inputs, rows, "x", "gate")
    return {"y": float(problem.params["scale"]) * (x / (1 + np.exp(-gate))).sum(axis=1)}


def spread_result(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, residual, post = _read_tokens(inputs, rows, "x", "residual", "post")
    if problem.reads("comb"):
        [comb] = _read_tokens(inputs, rows, "comb")
        residual = np.einsum("tsd,tsm->tdm", comb, residual)
    return {"y": post[:, :, None] * x[:, None] + residual}


def balance(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Mixing by a softmax over new streams; then new and old ones come to add up to 1 by turns."""
    [mixes] = _read_tokens(inputs, rows, "mixes")
    epsilon, first = float(problem.params["epsilon"]), 2 * COMBINED
    scale, base = inputs["scale"].astype(np.float64)[2], inputs["base"].astype(np.float64)
    logits = (mixes * scale + base)[:, first:].reshape(-1, COMBINED, COMBINED)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    y = powers / powers.sum(axis=-1, keepdims=True) + epsilon
    y = y / (y.sum(axis=1, keepdims=True) + epsilon)
    for _ in range(int(problem.params["iterations"]) - 1):
        for axis in (2, 1):
            y = y / (y.sum(axis=axis, keepdims=True) + epsilon)
    return {"y": y}


def launch_sums(problem: Problem, device: DeviceFacts) -> Launch:
    """A thread for each number of each token."""
    t, s, m = problem.shape.values()
    groups = grid(-(-t * m // THREADS))
    push: Push = {
        "columns": divisor(m),
        "count": t * m,
        "scale": float(problem.params.get("scale", 1.0)),
        "groups_x": groups[0],
    }
    constants = {"THREADS": THREADS, "STREAMS": s}
    if problem.kernel.name == "dsv4_hc_post":
        constants["MIXED"] = int(problem.reads("comb"))
    return Launch(groups=groups, push=push, constants=constants)


def launch_balance(problem: Problem, device: DeviceFacts) -> Launch:
    """A thread for each token."""
    tokens = problem.shape["t"]
    groups = grid(-(-tokens // THREADS))
    push: Push = {
        "tokens": tokens,
        "iterations": int(problem.params["iterations"]),
        "epsilon": float(problem.params["epsilon"]),
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    t, s, m = problem.shape.values()
    if s > MOST_STREAMS:
        return f"a token has {MOST_STREAMS} streams at most, not {s}"
    if t * s * m >= MOST_DIVIDED:
        return f"there are {t * s * m} numbers: the kernel counts to {MOST_DIVIDED}"
    return too_large(problem, device)


def lay_out_comb(problem: Problem, binding: str) -> Layout:
    """Numbers for `pre` and `post` come before those of the mixing."""
    if problem.shape["s"] != COMBINED:
        raise UsageError(f"{COMBINED} streams are balanced, not {problem.shape['s']}")
    mixes = (2 + COMBINED) * COMBINED
    shapes: Mapping[str, Sequence[int]] = {
        "mixes": (problem.shape["t"], mixes),
        "scale": (3,),
        "base": (mixes,),
    }
    return Layout.contiguous(shapes.get(binding) or problem.full_shape(binding))


def infer_comb(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    tokens, *_ = shapes["mixes"]
    return {"t": tokens, "s": COMBINED}


def _make(
    problem: Problem, makers: Mapping[str, Callable[[Problem, str], Array]]
) -> dict[str, Array]:
    """All inputs; those that are not read are a single number."""
    return {name: maker(problem, name) for name, maker in makers.items()}


def _shares(problem: Problem, binding: str) -> Array:
    return data.uniform(problem, binding, 0.0, 1.0)


def _kernel(
    name: str,
    description: str,
    bindings: tuple[Binding, ...],
    check: Callable[[Problem, Arrays, Array | None], dict[str, Array]],
    cases: Iterable[str],
    timed: Iterable[str],
    params: Mapping[str, Param] | None = None,
) -> Kernel:
    """A kernel about tokens, streams and their numbers."""
    makers = {
        b.name: _shares if b.name in {"weights", "post", "comb"} else data.bell
        for b in bindings
        if b.is_input
    }
    return Kernel(
        name=name,
        description=description,
        group=GROUP,
        dims=("t", "s", "m"),
        bindings=bindings,
        params=params or {},
        forms=Forms(empty=("t",)),
        variants=(
            portable("streams", launch_sums, "f32", entry=name[len("dsv4_") :], refuses=refuses),
        ),
        inputs=lambda problem: _make(problem, makers),
        check=Check(reference=check, rows="t"),
        work=Work(flops=lambda problem: 2 * prod(problem.shape.values())),
        cases=CaseList(lambda: (parse(f"{name}/f32/{shape}") for shape in cases)),
        timed=CaseList(lambda: (parse(f"{name}/f32/{shape}") for shape in timed)),
    )


_STREAMS = declare_input("x", ONE, ("t", "s", "m"), "the streams of each token")
_ONE_VECTOR = declare_output("y", ONE, ("t", "m"), "a vector for each token")
_SIZES = ("t1_s1_m1", "t5_s4_m31", "t3_s8_m257", "t17_s4_m128", "t2_s3_m4099", "t0_s4_m33")
_TIMED = ("t1_s4_m4096", "t512_s4_m4096")

PRE = _kernel(
    "dsv4_hc_pre",
    "Adds up the residual streams of each token by weights: y[m] = sum over s of x[s, m] * w[s].",
    (
        _STREAMS,
        declare_input("weights", ONE, ("t", "s"), "how much of each stream"),
        _ONE_VECTOR,
    ),
    sum_streams,
    _SIZES,
    _TIMED,
)

PRE_GATED = _kernel(
    "dsv4_hc_pre_gated",
    "Adds up the residual streams of each token, each number through its gate:"
    " y[m] = scale * sum over s of x[s, m] * sigmoid(gate[s, m]).",
    (
        _STREAMS,
        declare_input("gate", ONE, ("t", "s", "m"), "what its sigmoid is taken of"),
        _ONE_VECTOR,
    ),
    sum_gated,
    (*_SIZES, "t5_s4_m65/scale=0.25"),
    tuple(f"{shape}/scale=0.25" for shape in _TIMED),
    {"scale": Param(default=1.0, description="factor of the sum")},
)

POST = _kernel(
    "dsv4_hc_post",
    "Adds the result of a layer to the residual streams of each token, which are mixed:"
    " y[d, m] = x[m] * post[d] + sum over s of residual[s, m] * comb[s, d].",
    (
        declare_input("x", ONE, ("t", "m"), "the layer's result for each token"),
        declare_input("residual", ONE, ("t", "s", "m"), "the streams before the layer"),
        declare_input("post", ONE, ("t", "s"), "how much of the result each stream gets"),
        declare_input(
            "comb",
            ONE,
            ("t", "s", "s"),
            "how much of each old stream, along rows, each new one gets",
            when={"mixing": ("given",)},
        ),
        declare_output("y", ONE, ("t", "s", "m"), "the streams behind the layer"),
    ),
    spread_result,
    (*_SIZES, "t5_s4_m65/mixing=none", "t3_s7_m33/mixing=none"),
    (*_TIMED, "t512_s4_m4096/mixing=none"),
    {
        "mixing": Param(
            default="given",
            choices=("given", "none"),
            description="whether old streams are mixed, or each stays what it is",
        )
    },
)

_BALANCED = (
    "t1_s4/iterations=1",
    "t17_s4/iterations=4",
    "t257_s4/iterations=8",
    "t129_s4",
    "t5_s4/epsilon=0.001,iterations=3",
    "t0_s4",
)

COMB = Kernel(
    name="dsv4_hc_comb",
    description="Makes of raw numbers how residual streams are mixed: a softmax, after which old"
    " and new streams come to add up to 1 by turns.",
    group=GROUP,
    dims=("t", "s"),
    bindings=(
        declare_input("mixes", ONE, ("t", "s"), "raw numbers: s + s others, then s * s of mixing"),
        declare_input("scale", ONE, ("s",), "three factors; the last is that of the mixing"),
        declare_input("base", ONE, ("s",), "what is added, as many as a token has raw numbers"),
        declare_output("y", ONE, ("t", "s", "s"), "how much of each old stream, new ones within"),
    ),
    params={
        "epsilon": Param(default=1e-6, description="added to shares and to their sums"),
        "iterations": Param(default=20, least=1, description="how often shares are balanced"),
    },
    forms=Forms(empty=("t",), layout=lay_out_comb, infer=infer_comb),
    variants=(portable("hc_comb", launch_balance, "f32"),),
    inputs=lambda problem: _make(problem, dict.fromkeys(("mixes", "scale", "base"), data.bell)),
    check=Check(reference=balance, rows="t"),
    work=Work(
        flops=lambda problem: (
            4 * COMBINED**2 * problem.shape["t"] * int(problem.params["iterations"])
        )
    ),
    cases=CaseList(lambda: (parse(f"dsv4_hc_comb/f32/{shape}") for shape in _BALANCED)),
    timed=CaseList(lambda: (parse(f"dsv4_hc_comb/f32/t{tokens}_s4") for tokens in (1, 512))),
)

STREAMS = (COMB, PRE, PRE_GATED, POST)
