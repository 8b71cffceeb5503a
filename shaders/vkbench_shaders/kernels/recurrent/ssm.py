"""State space models: Mamba's convolution over time, and its scan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, prod

import numpy as np

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Work,
    too_large,
)
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
    variants,
    walk_tokens,
)
from vkbench_shaders.kernels.shared.activations import silu
from vkbench_shaders.kernels.shared.portable import portable

# --- convolution

_CHANNELS, _TOKENS = 32, 64  # of a workgroup
_MOST_WIDTH = 64


def conv_layout(problem: Problem, binding: str) -> Layout:
    """x goes on from what was before the first token."""
    shape = problem.full_shape(binding)
    if binding == "x":
        shape = (*shape[:-1], shape[-1] + problem.shape["w"] - 1)
    return Layout.contiguous(shape)


def conv_launch(problem: Problem, device: DeviceFacts) -> Launch:
    s, c, t, w = (problem.shape[dim] for dim in "sctw")
    pitch = (_TOKENS + w - 1) | 1
    silu = problem.params["activation"] == "silu"
    return Launch(
        groups=(ceil(c / _CHANNELS), ceil(t / _TOKENS), s),
        push={"channels": c, "tokens": t},
        constants={
            "WIDTH": w,
            "PITCH": pitch,
            "BIAS": problem.params["bias"] == "yes",
            "SILU": silu,
        },
    )


def conv_refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if problem.shape["w"] > _MOST_WIDTH:
        return f"{_MOST_WIDTH} taps at most, not {problem.shape['w']}"
    return too_large(problem, device)


def conv_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    channels = slice(None) if rows is None else rows
    given, t = exact(inputs), problem.shape["t"]
    x, weights = given["x"][:, channels], given["weights"][channels]
    y = np.zeros((len(x), len(weights), t))
    for tap in range(problem.shape["w"]):
        y += x[:, :, tap : tap + t] * weights[:, tap, None]
    if problem.params["bias"] == "yes":
        y += given["bias"][channels][:, None]
    if problem.params["activation"] == "silu":
        y = silu(y)
    return {"y": y.swapaxes(1, 2)}


def conv_infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """x has the tokens and those that taps need before them."""
    if len(shapes["x"]) != 3 or len(shapes["weights"]) != 2:
        raise UsageError("x is sequences by channels by tokens, weights are channels by taps")
    (s, c, n), (_, w) = shapes["x"], shapes["weights"]
    return {"s": s, "c": c, "t": n - w + 1, "w": w}


_CONV = (
    "s1_c1_t1_w1",
    *(f"s1_c{c}_t{t}_w{w}" for w in (3, 4, 9) for c, t in ((31, 1), (33, 65))),
    "s2_c65_t130_w4/bias=yes",
    "s3_c40_t63_w3/activation=silu",
    "s2_c1024_t3_w9/activation=silu,bias=yes",
    "s4_c1536_t1_w4/activation=silu,bias=yes",
    "s1_c5_t0_w4",
    "s0_c5_t4_w4",
)
_TIMED_CONV = (
    *(f"s1_c{c}_t{t}_w4" for c, t in ((3328, 512), (8192, 934), (3328, 1))),
    "s1_c8192_t934_w4/activation=silu,bias=yes",
)

SSM_CONV = Kernel(
    name="ssm_conv",
    description="Convolution over time, each channel by itself: y[t, c] = sum x[c, t + i] w[c, i].",
    group="recurrent",
    dims=("s", "c", "t", "w"),
    bindings=(
        binding("x", "sct", "a row a channel: w - 1 numbers from before, then the tokens"),
        binding("weights", "cw", "a row of taps a channel"),
        replace(binding("bias", "c", "what is added for each channel"), when={"bias": ("yes",)}),
        binding("y", "stc", "a row a token", "out"),
    ),
    params={
        "bias": Param(default="no", choices=("no", "yes"), description="whether there is a bias"),
        "activation": Param(
            default="none", choices=("none", "silu"), description="what follows: nothing, or SiLU"
        ),
    },
    forms=Forms(layout=conv_layout, infer=conv_infer, empty=("s", "t")),
    variants=(portable("ssm_conv", conv_launch, "f32", refuses=conv_refuses),),
    inputs=lambda problem: {name: data.bell(problem, name) for name in ("x", "weights", "bias")},
    check=Check(reference=conv_reference, rows="c"),
    work=Work(flops=lambda problem: 2 * prod(problem.array_shape("y")) * problem.shape["w"]),
    cases=CaseList(lambda: cases("ssm_conv", _CONV)),
    timed=CaseList(lambda: cases("ssm_conv", _TIMED_CONV)),
)

# --- scan


def is_each(problem: Problem) -> bool:
    """Whether each key has a decay of its own: Mamba-1."""
    return problem.params["decay"] == "each"


def scan_layout(problem: Problem, binding: str) -> Layout:
    """A decay a head, unless there is one for each key."""
    shape = problem.full_shape(binding)
    if binding == "a" and not is_each(problem):
        shape = (*shape[:-1], 1)
    return Layout.contiguous(shape)


def scan_of(problem: Problem) -> Recurrence:
    """Mamba-1's heads of one value are columns of one head."""
    s, t, h, g, p, d = (problem.shape[dim] for dim in "sthgpd")
    by_key = is_each(problem)
    return Recurrence(
        sequences=s,
        tokens=t,
        heads=1 if by_key else h,
        columns=h if by_key else p,
        keys=d,
        key_heads=g,
        vectors=2,
        rows=1 + by_key,
        each=by_key,
    )


def scan_refusal(problem: Problem) -> str | None:
    p = problem.shape["p"]
    if is_each(problem) and p != 1:
        return f"heads have one value where each key has a decay, not {p}"
    return None


def scan_inputs(problem: Problem) -> dict[str, Array]:
    names = "v", "b", "c"
    return {
        **{name: data.bell(problem, name) for name in names},
        "state": data.bell(problem, "state"),
        "dt": data.uniform(problem, "dt", -4.0, 1.0),
        "a": data.uniform(problem, "a", -3.0, -0.05),
        "ids": data.indices(problem, "ids", max(problem.shape["s"], 1)),
    }


def scan_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    h, g = problem.shape["h"], problem.shape["g"]
    heads = np.arange(h) if rows is None else rows
    state = inputs["state"].astype(np.float64)[:, heads][inputs["ids"]]
    a = inputs["a"].astype(np.float64)[heads]
    given = {name: inputs[name][:, :, heads] for name in ("v", "dt")}
    shared = {name: inputs[name][:, :, heads // (h // g)] for name in "bc"}

    def step(state: Numbers, token: Mapping[str, Numbers]) -> Numbers:
        size = np.logaddexp(0, token["dt"])[..., None]
        state *= np.exp(size * a)[:, :, None, :]
        state += outer(token["v"] * size, token["b"])
        return read(state, token["c"])

    y = walk_tokens(step, state, exact({**given, **shared}), problem.shape["t"])
    return {"y": y, "next_state": state}


_SCAN = (
    "s1_t1_h1_g1_p4_d16",
    "s2_t7_h4_g2_p16_d16",
    "s3_t33_h2_g1_p64_d16",
    "s1_t65_h2_g2_p80_d128",
    "s1_t9_h4_g1_p64_d128",
    "s2_t17_h2_g1_p16_d256",
    "s1_t0_h2_g1_p16_d16",
    "s0_t3_h2_g1_p16_d16",
    "s1_t1024_h1_g1_p16_d16",
    "s2_t17_h4_g1_p1_d16/decay=each",
    "s1_t33_h1032_g1_p1_d16/decay=each",
)
_TIMED_SCAN = (
    *(f"s1_t{t}_h48_g1_p64_d128" for t in (512, 1)),
    *(f"s1_t{t}_h128_g1_p80_d128" for t in (512, 1)),
    "s1_t512_h4096_g1_p1_d16/decay=each",
)

SSM_SCAN = Kernel(
    name="ssm_scan",
    description="Mamba's scan: S = e^(a d) S + d x B, y = S C, where d = softplus(dt).",
    group="recurrent",
    dims=("s", "t", "h", "g", "p", "d"),
    bindings=(
        *ends("sthp", "shpd", "a row a value, keys within"),
        binding("b", "stgd", "B, what puts values into the state: h / g heads beside each other's"),
        binding("c", "stgd", "C, what reads the state, as B"),
        binding("dt", "sth", "size of a token's step, before softplus"),
        binding("a", "hd", "A, at most 0: one for each head (1 instead of d), or for each key"),
        binding("ids", "s", "the state that each sequence goes on from", fmt="i32"),
    ),
    params={
        "decay": Param(
            default="head",
            choices=("head", "each"),
            description="whether a head has one A (Mamba-2), or each of its keys has (Mamba-1)",
        )
    },
    forms=Forms(layout=scan_layout, empty=("s", "t")),
    variants=variants("scan", scan_of, scan_refusal),
    inputs=scan_inputs,
    check=Check(reference=scan_reference, rows="h"),
    work=Work(flops=lambda problem: flops(problem, 5)),
    cases=CaseList(lambda: cases("ssm_scan", _SCAN)),
    timed=CaseList(lambda: cases("ssm_scan", _TIMED_SCAN)),
)

SSM = (SSM_CONV, SSM_SCAN)
