"""What Mamba-1 does to each sequence's new token beside products: a convolution, and a scan.

A matrix stands between the two, which B, C and the sizes of steps are made by. So a layer takes a
launch before it and one behind, where a model would launch fifteen for a single token.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    Forms,
    Kernel,
    Launch,
    Layout,
    Problem,
    Shapes,
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

# --- convolution

_CHANNELS = 64  # of a workgroup


def conv_layout(problem: Problem, binding: str) -> Layout:
    """The table has the tokens before."""
    n, c, w = (problem.shape[dim] for dim in "ncw")
    shape = (n, w - 1, c) if binding == "conv" else problem.full_shape(binding)
    return Layout.contiguous(shape)


def conv_infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the table (n, w - 1, c) and the tokens (s, k)."""
    if [len(shapes[name]) for name in ("conv", "given")] != [3, 2]:
        raise UsageError("conv has three dimensions (n, w - 1, c), given has two (s, k)")
    (n, kept, c), (s, k) = shapes["conv"], shapes["given"]
    return {"s": s, "n": n, "c": c, "k": k, "w": kept + 1}


def conv_launch(problem: Problem, device: DeviceFacts) -> Launch:
    s, c, k, w = (problem.shape[dim] for dim in "sckw")
    return Launch(groups=(ceil(c / _CHANNELS), s, 1), push={"channels": c, "width": k, "taps": w})


def conv_refuses(problem: Problem, device: DeviceFacts) -> str | None:
    c, k, w = (problem.shape[dim] for dim in "ckw")
    if w < 2:
        return f"a convolution looks at 2 tokens or more, not {w}"
    if k < c:
        return f"tokens of {k} numbers have no {c} channels"
    return too_large(problem, device)


def conv_inputs(problem: Problem) -> dict[str, Array]:
    names = ("given", "weights", "biases", "conv")
    return {**{name: data.bell(problem, name) for name in names}, **choose_states(problem)}


def conv_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    given, new = exact(inputs), inputs["given"][:, None, : problem.shape["c"]]
    last = np.concatenate([given["conv"][inputs["before"]], new], axis=1)
    given["conv"][inputs["behind"]] = last[:, 1:]
    y = silu(np.einsum("swc,cw->sc", last, given["weights"]) + given["biases"])
    return {"conv": given["conv"], "y": y}


def conv_flops(problem: Problem) -> int:
    return 2 * problem.shape["s"] * problem.shape["c"] * problem.shape["w"]


def _list_cases(kernel: str, shapes: tuple[str, ...]) -> tuple[Case, ...]:
    return tuple(parse(f"{kernel}/{shape}") for shape in shapes)


_CONV = (
    "f32/s1_n2_c1_k1_w2",
    "f32/s3_n7_c65_k130_w4",
    "f32/s2_n4_c64_k97_w3",
    "f32/s1_n3_c1536_k3072_w4",
)
_TIMED_CONV = tuple(f"f32/s{s}_n{3 * s}_c5120_k10240_w4" for s in (1, 8))

SSM_CONV_TOKEN = Kernel(
    name="ssm_conv_token",
    description=(
        "Convolves a new token with those before it, then SiLU, and leaves the last ones: one step "
        "of a model."
    ),
    group="recurrent",
    dims=("s", "n", "c", "k", "w"),
    bindings=(
        read_binding("given", "sk", "the new token of each sequence: c channels, and what follows"),
        read_binding("weights", "cw", "a row of taps a channel"),
        read_binding("biases", "c", "what is added for each channel"),
        table_binding("conv", "nwc", "the w - 1 tokens before, for each state"),
        *TURN,
        declare_output("y", ("f32",), ("s", "c"), "results"),
    ),
    variants=(portable("conv_token", conv_launch, "f32", refuses=conv_refuses),),
    inputs=conv_inputs,
    check=Check(reference=conv_reference),
    work=Work(flops=conv_flops, bytes_moved=bytes_moved),
    forms=Forms(infer=conv_infer, layout=conv_layout),
    cases=CaseList(lambda: _list_cases("ssm_conv_token", _CONV)),
    timed=CaseList(lambda: _list_cases("ssm_conv_token", _TIMED_CONV)),
)

# --- scan

_EACH = 16  # keys a lane
_LEAST_THREADS = 64  # few, because 5120 columns of 16 keys are all that there is to do
_BLOCK = 32  # columns that are rounded together


def _is_rounded(problem: Problem) -> bool:
    return problem.types["y"] != "f32"


def scan_layout(problem: Problem, binding: str) -> Layout:
    """Gates lie behind other numbers of a token, and C behind B."""
    s, h, d = (problem.shape[dim] for dim in "shd")
    shapes = {"given": (s, 2 * h), "bc": (s, 2 * d)}
    return Layout.contiguous(shapes.get(binding) or problem.full_shape(binding))


def scan_infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from the states (n, h, d) and the values (s, h)."""
    if [len(shapes[name]) for name in ("state", "x")] != [3, 2]:
        raise UsageError("state has three dimensions (n, h, d), x has two (s, h)")
    (n, h, d), s = shapes["state"], shapes["x"][0]
    return {"s": s, "n": n, "h": h, "d": d}


def _threads(problem: Problem) -> int:
    """Threads of a workgroup: at least those that make a block, where results are rounded."""
    lanes = problem.shape["d"] // _EACH
    return max(_LEAST_THREADS, _BLOCK * lanes if _is_rounded(problem) else 0)


def scan_launch(problem: Problem, device: DeviceFacts) -> Launch:
    s, h, d = (problem.shape[dim] for dim in "shd")
    threads, lanes = _threads(problem), d // _EACH
    return Launch(
        groups=(ceil(h * lanes / threads), s, 1),
        push={"columns": h},
        constants={"THREADS": threads, "LANES": lanes},
    )


def scan_refuses(problem: Problem, device: DeviceFacts) -> str | None:
    d = problem.shape["d"]
    if d not in KEYS:
        return f"a state has {', '.join(map(str, KEYS))} keys a value, not {d}"
    threads = _threads(problem)
    if threads > (room := device.limits.get("max_workgroup_invocations", threads)):
        return f"{d} keys take workgroups of {threads} threads, the device has {room}"
    needed = 4 * (2 * threads + threads * _EACH // d) + ROUNDING * _is_rounded(problem)
    shared = limits.too_much_shared(needed, device.limits.get("max_shared_bytes", 0))
    return shared or too_large(problem, device)


def scan_inputs(problem: Problem) -> dict[str, Array]:
    ranges = {
        "state": (-0.5, 0.5),
        "dt": (-4.0, 1.0),
        "step_biases": (-1.0, 1.0),
        "a": (-3.0, -0.05),
        "direct": (-2.0, 2.0),
    }
    return {
        **{name: data.bell(problem, name) for name in ("given", "x", "bc")},
        **{name: data.uniform(problem, name, *ends) for name, ends in ranges.items()},
        **choose_states(problem),
    }


def scan_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    h, d = problem.shape["h"], problem.shape["d"]
    given = exact(inputs)
    b, c = np.split(given["bc"][:, None], [d], axis=2)
    size = softplus(given["dt"] + given["step_biases"])
    state = given["state"][inputs["before"]] * np.exp(size[..., None] * given["a"])
    state += outer(given["x"] * size, b[:, 0])
    made = read(state, c[:, 0]) + given["direct"] * given["x"]
    given["state"][inputs["behind"]] = state
    return {"state": given["state"], "y": made * silu(given["given"][:, h:])}


def scan_flops(problem: Problem) -> int:
    return 6 * problem.shape["s"] * problem.shape["h"] * problem.shape["d"]


_SCAN = (
    "f32/s1_n2_h1_d16",
    "f32/s3_n7_h65_d16",
    "f32/s2_n4_h33_d64",
    "f32/s1_n3_h20_d256",
    "f32:y=q8_1/s1_n3_h5120_d16",
    "f32:y=q8_1/s2_n5_h96_d32",
    "f32:y=q8_1/s1_n2_h64_d64",
)
_TIMED_SCAN = tuple(f"f32:y=q8_1/s{s}_n{3 * s}_h5120_d16" for s in (1, 8))

SELECTIVE_SCAN_TOKEN = Kernel(
    name="selective_scan_token",
    description=(
        "Goes on from a state by Mamba-1's scan of a new token, and gates what it makes: one step "
        "of a model."
    ),
    group="recurrent",
    dims=("s", "n", "h", "d"),
    bindings=(
        read_binding("given", "sh", "h numbers that are not read, then the gates of results"),
        read_binding("x", "sh", "values of the new token of each sequence"),
        table_binding("state", "nhd", "what was remembered: a row a value, keys within"),
        read_binding("bc", "sd", "B, what puts values into the state; then C, what reads it"),
        read_binding("dt", "sh", "size of each value's step, before its bias and softplus"),
        read_binding("step_biases", "h", "what is added to the size of steps"),
        read_binding("a", "hd", "A, at most 0: states are kept by e^(A step)"),
        read_binding("direct", "h", "D, by which values go beside the scan"),
        *TURN,
        declare_output("y", ("f32", "q8_1"), ("s", "h"), "results, or rounded to bytes"),
    ),
    variants=(
        portable(
            "selective_token",
            scan_launch,
            "f32",
            arguments=lambda types: (name_results(types),),
            refuses=scan_refuses,
        ),
    ),
    inputs=scan_inputs,
    check=Check(reference=scan_reference),
    work=Work(flops=scan_flops, bytes_moved=bytes_moved),
    forms=Forms(infer=scan_infer, layout=scan_layout),
    cases=CaseList(lambda: _list_cases("selective_scan_token", _SCAN)),
    timed=CaseList(lambda: _list_cases("selective_scan_token", _TIMED_SCAN)),
)

SELECTIVE = (SSM_CONV_TOKEN, SELECTIVE_SCAN_TOKEN)
