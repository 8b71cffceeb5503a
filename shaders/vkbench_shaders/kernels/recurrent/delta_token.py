"""gated_delta_net_token: a gated delta net and each sequence's new token, with all that is beside.

A model that makes one token at a time would launch more than twenty kernels for a net: to convolve
its last tokens, to cut queries, keys and values out and to bring them to length 1, to make rates
and decays, to copy states, for the delta rule, the norm of its heads and their gates. What these
do takes less time than the device needs to go from one to the next, so this kernel does it all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import sqrt

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_output
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
    Variant,
    Work,
    too_large,
)
from vkbench_shaders.kernels.recurrent.recurrence import KEYS, Numbers, exact, outer, read
from vkbench_shaders.kernels.recurrent.states import (
    ROUNDING,
    TURN,
    bytes_moved,
    choose_states,
    name_results,
    read_binding,
    table_binding,
)
from vkbench_shaders.kernels.shared import limits
from vkbench_shaders.kernels.shared.activations import sigmoid, silu, softplus

DIMS = ("s", "n", "h", "g", "d", "w")
SHARED = ("modulo", "beside")
_EACH = 16  # keys a lane
_THREADS = 1024  # all of a head of 128 numbers at once
_PORTABLE_THREADS = 128
_LEAST_THREADS = 64
_SMALL = 256  # of them beside what grows with a case


def _all_heads(problem: Problem) -> int:
    """Heads of queries, of keys and of values."""
    return problem.shape["h"] + 2 * problem.shape["g"]


def layout(problem: Problem, binding: str) -> Layout:
    """Where queries and keys lie before values, and what tables hold of the tokens before."""
    s, n, h, d, w = (problem.shape[dim] for dim in "snhdw")
    heads = _all_heads(problem)
    shapes = {
        "qkv": (s, heads, d),
        "weights": (heads, d, w),
        "conv": (n, w - 1, heads, d),
        "rates": (s, 2 * h),
    }
    return Layout.contiguous(shapes.get(binding) or problem.full_shape(binding))


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the states (n, h, d, d), the gates (s, h, d) and the weights (heads, d, w)."""
    if [len(shapes[name]) for name in ("state", "z", "weights")] != [4, 3, 3]:
        raise UsageError("state has four dimensions (n, h, d, d), z (s, h, d) and weights three")
    (n, h, d, _), (heads, _, w) = shapes["state"], shapes["weights"]
    return {"s": shapes["z"][0], "n": n, "h": h, "g": (heads - h) // 2, "d": d, "w": w}


def _lanes(problem: Problem) -> int:
    """Threads that share a column of a state."""
    return problem.shape["d"] // _EACH


def launch(most: int, problem: Problem, device: DeviceFacts) -> Launch:
    """A workgroup for each head, of so many threads at most."""
    s, h, g, d, w = (problem.shape[dim] for dim in "shgdw")
    lanes, room = _lanes(problem), device.limits.get("max_workgroup_invocations", most)
    return Launch(
        groups=(h, s, 1),
        push={
            "heads": h,
            "key_heads": g,
            "sharing": h // g if problem.params["shared"] == "beside" else 0,
            "taps": w,
            "scale": 1 / sqrt(d),
            "eps": float(problem.params["eps"]) + 0.0,  # never -0
        },
        constants={
            "THREADS": max(_LEAST_THREADS, min(d * lanes, most, room)),
            "LANES": lanes,
            "JOINED": min(lanes, device.subgroup_size),
        },
    )


def refuses(most: int, problem: Problem, device: DeviceFacts) -> str | None:
    shape = problem.shape
    if shape["d"] not in KEYS:
        return f"heads have {', '.join(map(str, KEYS))} numbers, not {shape['d']}"
    if shape["h"] % shape["g"]:
        return f"{shape['h']} heads do not share {shape['g']} heads of keys evenly"
    if shape["w"] < 2:
        return f"a convolution looks at 2 tokens or more, not {shape['w']}"
    threads = launch(most, problem, device).constants["THREADS"]
    needed = 4 * (2 * threads + 4 * shape["d"]) + _SMALL
    needed += ROUNDING if problem.types["y"] != "f32" else 0
    shared = limits.too_much_shared(needed, device.limits.get("max_shared_bytes", 0))
    return shared or too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    ranges = {
        "weights": (-1.0, 1.0),
        "state": (-0.5, 0.5),
        "rates": (-4.0, 2.0),
        "biases": (-2.0, 1.0),
        "decays": (-3.0, -0.05),
        "factors": (-2.0, 2.0),
    }
    return {
        **{name: data.bell(problem, name) for name in ("qkv", "conv", "z")},
        **{name: data.uniform(problem, name, *ends) for name, ends in ranges.items()},
        **choose_states(problem),
    }


def _split_rates(problem: Problem, rates: Numbers) -> tuple[Numbers, Numbers]:
    """What each head's rate of learning and its decay are made of."""
    s, h, g = (problem.shape[dim] for dim in "shg")
    parts = (s, g, 2, h // g) if problem.params["shared"] == "beside" else (s, 1, 2, h)
    both = rates.reshape(parts)
    return both[:, :, 0].reshape(s, h), both[:, :, 1].reshape(s, h)


def _unit(vectors: Numbers, eps: float) -> Numbers:
    return np.asarray(vectors / np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True) + eps))


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    h, g, d = (problem.shape[dim] for dim in "hgd")
    given, eps = exact(inputs), float(np.float32(problem.params["eps"]))
    source, target = (inputs[name] for name in ("before", "behind"))
    last = np.concatenate([given["conv"][source], given["qkv"][:, None]], axis=1)
    convolved = silu(np.einsum("swhd,hdw->shd", last, given["weights"]))
    q, k, v = np.split(convolved, [g, 2 * g], axis=1)
    heads = np.arange(h)
    of = heads // (h // g) if problem.params["shared"] == "beside" else heads % g
    q, k = (_unit(part, eps)[:, of] for part in (q, k))
    learnt, slow = _split_rates(problem, given["rates"])
    kept = np.exp(softplus(slow + given["biases"]) * given["decays"])
    state = given["state"][source] * kept[..., None, None]
    state += outer((v - read(state, k)) * sigmoid(learnt)[..., None], k)
    made = read(state, q) / sqrt(d)
    made /= np.sqrt((made * made).mean(axis=-1, keepdims=True) + eps)
    given["conv"][target], given["state"][target] = last[:, 1:], state
    y = made * given["factors"] * silu(given["z"])
    return {"conv": given["conv"], "state": given["state"], "y": y}


def flops(problem: Problem) -> int:
    """Of the convolution and the delta rule."""
    s, h, d, w = (problem.shape[dim] for dim in "shdw")
    return s * d * (2 * w * _all_heads(problem) + 7 * h * d)


def _variant(name: str, team: str, most: int, requires: tuple[str, ...]) -> Variant:
    def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
        return team, name_results(types)

    return Variant(
        name=name,
        module="delta_token",
        arguments=arguments,
        launch=partial(launch, most),
        refuses=partial(refuses, most),
        requires=requires,
        arithmetic="f32",
    )


_SHAPES = (
    "s1_n2_h1_g1_d16_w2",
    "s1_n3_h4_g2_d64_w4",
    "s2_n6_h6_g2_d32_w4/shared=beside",
    "s3_n7_h4_g4_d128_w4",
    "s1_n3_h6_g3_d128_w3/eps=0.01,shared=beside",
    "s2_n5_h2_g1_d256_w4",
)
_ROUNDED = (
    "s1_n3_h32_g16_d128_w4",
    "s2_n6_h4_g2_d64_w4/shared=beside",
    "s1_n2_h3_g1_d32_w5",
)
_TIMED = tuple(f"s{s}_n{3 * s}_h32_g16_d128_w4" for s in (1, 8))


def _list_cases(shapes: tuple[str, ...], fmt: str) -> tuple[Case, ...]:
    return tuple(parse(f"gated_delta_net_token/{fmt}/{shape}") for shape in shapes)


GATED_DELTA_NET_TOKEN = Kernel(
    name="gated_delta_net_token",
    description=(
        "Convolves a new token, goes on from a state by the gated delta rule, and normalises and "
        "gates each head: one step of a model."
    ),
    group="recurrent",
    dims=DIMS,
    bindings=(
        read_binding("qkv", "sgd", "queries of g heads, then keys of as many, then values of h"),
        read_binding("weights", "gdw", "of the convolution: a row of taps for each number of qkv"),
        table_binding("conv", "nwgd", "the w - 1 tokens before, for each state"),
        table_binding("state", "nhdd", "what was remembered: a row a value, keys within"),
        read_binding("rates", "sh", "2 h numbers: of rates of learning, then of decays"),
        read_binding("biases", "h", "what is added to those of decays"),
        read_binding(
            "decays", "h", "factors of steps, at most 0, whose powers of e states are kept by"
        ),
        read_binding("z", "shd", "gates of results"),
        read_binding("factors", "d", "what a head's results are multiplied by when normalised"),
        *TURN,
        declare_output("y", ("f32", "q8_1"), ("s", "h", "d"), "results, or rounded to bytes"),
    ),
    params={
        "eps": Param(default=1e-6, least=0, description="what keeps vectors of 0 finite"),
        "shared": Param(
            default=SHARED[0],
            choices=SHARED,
            description=(
                "heads that share one of keys: those that are alike modulo g; or h / g beside each "
                "other, whose rates lie together, those of learning first"
            ),
        ),
    },
    variants=(
        _variant("subgroup", "subgroups", _THREADS, ("subgroup_shuffle",)),
        _variant("portable", "threads", _PORTABLE_THREADS, ()),
    ),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=flops, bytes_moved=bytes_moved),
    forms=Forms(infer=infer, layout=layout),
    cases=CaseList(lambda: (*_list_cases(_SHAPES, "f32"), *_list_cases(_ROUNDED, "f32:y=q8_1"))),
    timed=CaseList(lambda: _list_cases(_TIMED, "f32:y=q8_1")),
)
