"""ssm_scan_token: a layer of Mamba-2 and each sequence's new token, between its two products.

A model that makes one token at a time would launch more than ten kernels for it: to convolve its
last tokens, to cut values, B and C out, to copy states, for the scan, what goes beside it, its
gates and the norm of groups. This kernel reads what the layer's first matrix made, all in one row.

A norm of a group needs all its heads, which several workgroups make. The last of them to be ready
normalises it, where a device says that stores are in order for all; elsewhere a launch more does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil

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
    Choice,
    Forms,
    Kernel,
    Launch,
    Layout,
    Memory,
    Param,
    Problem,
    Shapes,
    Stage,
    Variant,
    Work,
    too_large,
)
from vkbench_shaders.kernels.recurrent.recurrence import KEYS, exact, outer, read
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
from vkbench_shaders.kernels.shared.activations import silu, softplus
from vkbench_shaders.kernels.shared.portable import portable

_EACH = 16  # keys a lane
_THREADS = 256  # half of a head of 64 values and 128 keys: 80 heads are more than most GPUs' units
_PORTABLE_THREADS = 128
_LEAST_THREADS = 64
_SMALL = 64  # of them beside what grows with a case
_JOINED, _COLUMNS, _GROUPS = "scan_token", "scan_columns", "scan_groups"  # entry points


def _inner(problem: Problem) -> int:
    """Values of all heads."""
    return problem.shape["h"] * problem.shape["p"]


def _channels(problem: Problem) -> int:
    """Numbers of a token that are convolved: values, B and C."""
    return _inner(problem) + 2 * problem.shape["g"] * problem.shape["d"]


def layout(problem: Problem, binding: str) -> Layout:
    """What the row of a token is made of, and what the table holds of the tokens before."""
    s, n, h, w = (problem.shape[dim] for dim in "snhw")
    channels = _channels(problem)
    shapes: dict[str, tuple[int, ...]] = {
        "given": (s, _inner(problem) + channels + h),
        "weights": (channels, w),
        "biases": (channels,),
        "rates": (3, h),
        "conv": (n, w - 1, channels),
    }
    return Layout.contiguous(shapes.get(binding) or problem.full_shape(binding))


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the states (n, h, p, d), the weights (channels, w) and how many rows there are."""
    if [len(shapes[name]) for name in ("state", "given", "weights")] != [4, 2, 2]:
        raise UsageError("state has four dimensions (n, h, p, d), given and weights have two")
    (n, h, p, d), (channels, w) = shapes["state"], shapes["weights"]
    g = (channels - h * p) // (2 * d)
    return {"s": shapes["given"][0], "n": n, "h": h, "g": g, "p": p, "d": d, "w": w}


def _threads(most: int, problem: Problem, device: DeviceFacts) -> int:
    """Threads of a workgroup: enough for a head if that many are allowed, a power of two."""
    whole = problem.shape["p"] * problem.shape["d"] // _EACH
    room = device.limits.get("max_workgroup_invocations", most)
    return max(_LEAST_THREADS, min(1 << (whole - 1).bit_length(), most, room))


def _launch(entry: str, most: int, problem: Problem, device: DeviceFacts) -> Launch:
    s, h, g, p, d, w = (problem.shape[dim] for dim in "shgpdw")
    threads, lanes = _threads(most, problem, device), d // _EACH
    constants = {
        "THREADS": threads,
        "LANES": lanes,
        "JOINED": min(lanes, device.subgroup_size),
    }
    return Launch(
        groups=(ceil(p * lanes / threads), h, s),
        push={
            "heads": h,
            "groups": g,
            "columns": p,
            "taps": w,
            "eps": float(problem.params["eps"]) + 0.0,  # never -0
        },
        constants=constants,
        entry=entry,
    )


def _launch_both(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """The scan, and the norm of each group."""
    scan = _launch(_COLUMNS, _PORTABLE_THREADS, problem, device)
    norm = Launch(
        groups=(problem.shape["g"], problem.shape["s"], 1),
        push=scan.push,
        constants={"THREADS": scan.constants["THREADS"]},
        entry=_GROUPS,
    )
    return scan, norm


def refuses(most: int, problem: Problem, device: DeviceFacts) -> str | None:
    h, g, p, d, w = (problem.shape[dim] for dim in "hgpdw")
    if d not in KEYS:
        return f"a state has {', '.join(map(str, KEYS))} keys a value, not {d}"
    if p % 4:
        return f"heads have a multiple of 4 values, not {p}"
    if h % g:
        return f"{h} heads do not share {g} groups evenly"
    if w < 2:
        return f"a convolution looks at 2 tokens or more, not {w}"
    threads = _threads(most, problem, device)
    needed = 4 * (3 * threads + 2 * d + threads * _EACH // d) + _SMALL
    needed += ROUNDING if problem.types["y"] != "f32" else 0
    shared = limits.too_much_shared(needed, device.limits.get("max_shared_bytes", 0))
    return shared or too_large(problem, device)


def _scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """What gates pass of all values, before it is normalised."""
    return (4 * problem.shape["s"] * _inner(problem),)


def _orders_workgroups(problem: Problem, device: DeviceFacts) -> bool:
    """Whether a device says that what one workgroup stores is in order for all others."""
    return "device_scope" in device.features


def inputs(problem: Problem) -> dict[str, Array]:
    ranges = {
        "weights": (-1.0, 1.0),
        "biases": (-1.0, 1.0),
        "state": (-0.5, 0.5),
        "factors": (-2.0, 2.0),
    }
    of_heads = data.uniform(problem, "rates", -2.0, 1.0)
    of_heads[1] -= 1.05  # A is below 0
    return {
        "rates": of_heads,
        **{name: data.bell(problem, name) for name in ("given", "conv")},
        **{name: data.uniform(problem, name, *ends) for name, ends in ranges.items()},
        **choose_states(problem),
    }


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    s, h, g, p, d = (problem.shape[dim] for dim in "shgpd")
    given, eps = exact(inputs), float(np.float32(problem.params["eps"]))
    source, target = (inputs[name] for name in ("before", "behind"))
    inner, channels = _inner(problem), _channels(problem)
    z, new, dt = np.split(given["given"], [inner, inner + channels], axis=1)
    last = np.concatenate([given["conv"][source], new[:, None]], axis=1)
    convolved = silu(np.einsum("swc,cw->sc", last, given["weights"]) + given["biases"])
    x, b, c = np.split(convolved, [inner, inner + g * d], axis=1)
    x = x.reshape(s, h, p)
    b, c = (part.reshape(s, g, d).repeat(h // g, axis=1) for part in (b, c))
    biases, a, direct = given["rates"]
    size = softplus(dt + biases)
    state = given["state"][source] * np.exp(size * a)[..., None, None]
    state += outer(x * size[..., None], b)
    made = read(state, c) + direct[:, None] * x
    groups = (made.reshape(s, inner) * silu(z)).reshape(s, g, -1)
    groups /= np.sqrt((groups * groups).mean(axis=-1, keepdims=True) + eps)
    given["conv"][target], given["state"][target] = last[:, 1:], state
    y = groups.reshape(s, h, p) * given["factors"]
    return {"conv": given["conv"], "state": given["state"], "y": y}


def flops(problem: Problem) -> int:
    """Of the convolution and the scan."""
    s, d, w = (problem.shape[dim] for dim in "sdw")
    return s * (2 * w * _channels(problem) + 5 * d * _inner(problem))


_VARIANTS = (
    Variant(
        name="subgroup",
        module="scan_token",
        arguments=lambda types: ("subgroups", name_results(types)),
        launch=partial(_launch, _JOINED, _THREADS),
        refuses=partial(refuses, _THREADS),
        own=Memory(
            scratch=_scratch,
            counters=lambda problem, device: problem.shape["s"] * problem.shape["g"],
        ),
        requires=("subgroup_shuffle",),
        choice=Choice(suits=_orders_workgroups),
        arithmetic="f32",
    ),
    portable(
        "scan_token",
        _launch_both,
        "f32",
        entry=_COLUMNS,
        arguments=lambda types: ("threads",),
        more=(Stage(entry=_GROUPS, arguments=lambda types: (name_results(types),)),),
        refuses=partial(refuses, _PORTABLE_THREADS),
        own=Memory(scratch=_scratch),
    ),
)

_SHAPES = (
    "s1_n2_h1_g1_p4_d16_w2",
    "s2_n5_h4_g2_p64_d16_w4",
    "s1_n3_h6_g3_p20_d32_w3/eps=0.01",
    "s3_n7_h2_g1_p80_d128_w4",
    "s2_n4_h4_g1_p16_d64_w5",
    "s1_n2_h2_g1_p16_d256_w4",
)
_ROUNDED = (
    "s1_n3_h80_g1_p64_d128_w4",
    "s2_n6_h4_g2_p32_d16_w4",
    "s1_n2_h34_g1_p64_d16_w4",  # a group is normalised in several steps
)
_TIMED = tuple(f"s{s}_n{3 * s}_h80_g1_p64_d128_w4" for s in (1, 8))


def _list_cases(shapes: tuple[str, ...], fmt: str) -> tuple[Case, ...]:
    return tuple(parse(f"ssm_scan_token/{fmt}/{shape}") for shape in shapes)


SSM_SCAN_TOKEN = Kernel(
    name="ssm_scan_token",
    description=(
        "Convolves a new token, goes on from a state by Mamba-2's scan, gates what it makes and "
        "normalises each group: one step of a model."
    ),
    group="recurrent",
    dims=("s", "n", "h", "g", "p", "d", "w"),
    bindings=(
        read_binding("given", "sh", "gates, values, B and C of g groups, then a step a head"),
        read_binding("weights", "gw", "of the convolution of values, B and C: a row of taps each"),
        read_binding("biases", "g", "of the convolution"),
        table_binding("conv", "nwg", "the w - 1 tokens before, for each state"),
        table_binding("state", "nhpd", "what was remembered: a row a value, keys within"),
        read_binding("rates", "gh", "3 rows: biases of steps, A, which is at most 0, and D"),
        read_binding("factors", "hp", "what results are multiplied by when normalised"),
        *TURN,
        declare_output("y", ("f32", "q8_1"), ("s", "h", "p"), "results, or rounded to bytes"),
    ),
    params={"eps": Param(default=1e-5, least=0, description="what keeps groups of 0 finite")},
    variants=_VARIANTS,
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=flops, bytes_moved=bytes_moved),
    forms=Forms(infer=infer, layout=layout),
    cases=CaseList(lambda: (*_list_cases(_SHAPES, "f32"), *_list_cases(_ROUNDED, "f32:y=q8_1"))),
    timed=CaseList(lambda: _list_cases(_TIMED, "f32:y=q8_1")),
)
