"""Rotary positions: pairs of each head's numbers turned by angles that grow with the position.

Modes are ggml's: norm turns numbers beside each other, neox those half of what is turned apart;
mrope, imrope and vision give a token four positions and each pair one of them, by sections. The
angle of pair i is position * freq_base^(-2 i / n_dims) / factor[i], by freq_scale, or between the
two as yarn has it. Shaders make it as a fraction of a turn in integers (turns.slang).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor, log, pi, prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data, noise
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
    Push,
    Shapes,
    Stage,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.rowwise import row_values
from vkbench_shaders.kernels.rowwise.row_values import place
from vkbench_shaders.kernels.shared import rotation, rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

DIMS = ("b", "n", "h", "k")
TYPES = ("f32", "f16")
MODES = ("norm", "neox", "mrope", "imrope", "vision")
COURSES = {"mrope": 1, "imrope": 2, "vision": 3}  # the shader's numbers; others 0
FACTORS = ("none", "given")
MOST_ANGLES = 2048  # of the tokens of a workgroup, in shared memory
_ROWS = (64, 32, 16, 8, 4, 2, 1)  # that a workgroup may have
_TURN = 2.0**64  # a whole turn
_QUARTER = 2.0**62  # 1 as a scale
_MOST_SCALE = 3.0  # that the shader's numbers have room for

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Turning:
    """How heads are turned, worked out from a case's parameters."""

    dims: int  # that frequencies go by
    pairs: int
    halves: bool  # whether pairs lie apart
    sections: tuple[int, int, int, int]
    low: int  # pairs up to here have the scale `first`, those from low + ramp on the scale `last`
    ramp: int
    first: float
    last: float
    magnitude: float


def turning(problem: Problem) -> Turning:
    params, k = problem.params, problem.shape["k"]
    mode, n_dims = str(params["mode"]), int(params["n_dims"])
    dims = k // 2 if mode == "vision" else n_dims or k
    low, high = _bounds(problem, dims)
    scale, mix = float(params["freq_scale"]), float(params["ext_factor"])
    magnitude = float(params["attn_factor"])
    return Turning(
        dims=dims,
        pairs=k // 2 if mode == "vision" else dims // 2,
        halves=mode != "norm",
        sections=_sections(str(params["sections"])),
        low=low,
        ramp=max(1, high - low),
        first=scale + (1 - scale) * mix,
        last=scale,
        magnitude=magnitude * (1 + 0.1 * log(1 / scale)) if mix else magnitude,
    )


def _sections(text: str) -> tuple[int, int, int, int]:
    try:
        time, height, width, extra = map(int, text.split("."))
    except ValueError:
        raise UsageError(f"sections are four sizes, as 16.24.24.0; got {text}") from None
    return time, height, width, extra


def _bounds(problem: Problem, dims: int) -> tuple[int, int]:
    """Pairs that turn beta_fast and beta_slow times within the context that was trained."""
    context, base = int(problem.params["n_ctx_orig"]), float(problem.params["freq_base"])
    fast, slow = (
        dims * log(context / (float(problem.params[beta]) * 2 * pi)) / (2 * log(base))
        for beta in ("beta_fast", "beta_slow")
    )
    return max(0, floor(fast)), min(dims - 1, ceil(slow))


def ends(problem: Problem) -> tuple[str, str]:
    """Names of what is turned, and of the result."""
    first, *others = problem.kernel.bindings
    return first.name, next(binding.name for binding in others if binding.is_output)


def layout(problem: Problem, binding: str) -> Layout:
    """Some modes have four positions a token; factors are those of pairs."""
    match binding:
        case "positions":
            axes = 4 if problem.params["mode"] in COURSES else 1
            return Layout.contiguous((axes, problem.shape["n"]))
        case "factors":
            return Layout.contiguous((turning(problem).pairs,))
        case _:
            return rows.layout(problem, binding)


def is_aligned(problem: Problem) -> bool:
    """Whether 16 bytes hold only pairs, or only numbers to copy."""
    turn, at_once = turning(problem), 16 // problem.item_bytes(ends(problem)[0])
    whole = turn.pairs if turn.halves else 2 * turn.pairs
    return whole % at_once == 0 and row_values.are_rows_aligned(
        problem, ends(problem), problem.shape["k"]
    )


def rows_each(problem: Problem, room: int = MOST_ANGLES) -> int:
    """Rows of a workgroup: as many as have room for their angles."""
    heads, tokens = problem.shape["h"], room // turning(problem).pairs
    return next(n for n in _ROWS if (n - 2) // heads + 2 <= tokens or n == 1)


def launch(problem: Problem, sign: float, room: int = MOST_ANGLES) -> Launch:
    turn, aligned = turning(problem), is_aligned(problem)
    b, n, h, k = (problem.shape[dim] for dim in DIMS)
    rows, count = rows_each(problem, room), b * n * h
    groups = grid(-(-count // rows))
    moved = k - turn.pairs if turn.halves else k  # in pieces, of 16 bytes or two times 16
    pieces = moved * problem.item_bytes(ends(problem)[0]) // 16
    lanes = min(8, max(0, pieces - 1).bit_length())
    factors = problem.params["factors"] == "given"
    mode = COURSES.get(str(problem.params["mode"]), 0) | lanes << 8 | factors << 16
    time, height, width, extra = turn.sections
    base = float(problem.params["freq_base"])
    slope = (turn.last - turn.first) / turn.ramp
    x, y = (place(problem.layout(name)) for name in ends(problem))
    push: Push = {
        "x": x,
        "y": y,
        "first": _turn(_TURN / (2 * pi)),
        "ratio": _turn(_TURN * base ** (-2 / turn.dims)),
        "scale": _turn(_QUARTER * turn.first),
        "slope": _turn(_QUARTER * slope),
        "low": turn.low,
        "ramp": turn.ramp,
        "rows": count,
        "rows_each": rows,
        "groups_x": groups[0],
        "heads": h,
        "tokens": n,
        "columns": k,
        "pairs": turn.pairs,
        "pieces": pieces,
        "mode": mode,
        "sections01": time | height << 16,
        "sections23": width | extra << 16,
        "magnitude": turn.magnitude,
        "sign": sign,
        "table_rows": 0,
        "eps": 0.0,
        "id_words": 1,
    }
    entry = "rope" if aligned else "rope_ragged"
    return Launch(groups=groups, push=push, constants={"HALVES": turn.halves}, entry=entry)


def _turn(fraction: float) -> tuple[int, int]:
    """A fraction of a turn, as the shader has it: the upper word, the lower one."""
    whole = round(fraction) % 2**64
    return whole >> 32, whole & 0xFFFFFFFF


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    turn, k = turning(problem), problem.shape["k"]
    if k % 2 or turn.dims % 2 or 2 * turn.pairs > k:
        return f"heads of {k} numbers have no {turn.dims} to turn in pairs"
    if turn.pairs > MOST_ANGLES:
        return f"heads have {turn.pairs} pairs, a workgroup has room for {MOST_ANGLES}"
    if problem.params["mode"] in COURSES and not sum(turn.sections):
        return "sections are empty"
    if not all(0 < scale < _MOST_SCALE for scale in (turn.first, turn.last)):
        return f"angles are scaled by {turn.first:g}: more than 0 and less than {_MOST_SCALE:g}"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Positions of all magnitudes up to 2^20."""
    name, shape = ends(problem)[0], problem.array_shape("positions")
    words = noise.raw(problem.seed("positions"), 8 * prod(shape)).view("<u4").reshape(-1, 2)
    positions = (words[:, 0] >> (12 + words[:, 1] % 20)).astype(np.int32).reshape(shape)
    return {
        name: data.uniform(problem, name, -2, 2),
        "positions": positions,
        "factors": data.uniform(problem, "factors", 0.5, 8),
    }


def reference(
    problem: Problem, inputs: Arrays, rows: Array | None, sign: float
) -> dict[str, Array]:
    source, result = ends(problem)
    chosen = slice(None) if rows is None else rows
    x = quants.dequantise(problem.types[source], inputs[source][:, chosen])
    turn = turning(problem)
    theta = angles(problem, inputs)[chosen][:, None]
    cosine, sine = np.cos(theta) * turn.magnitude, sign * np.sin(theta) * turn.magnitude
    places = rotation.pairs(turn.pairs, halves=turn.halves)
    return {result: rotation.turn_pairs(x, places, cosine, sine)}


def angles(problem: Problem, inputs: Arrays) -> Numbers:
    """Angles of each token and pair."""
    turn = turning(problem)
    pair = np.arange(turn.pairs)
    axis, power = courses(str(problem.params["mode"]), turn)
    position = inputs["positions"].astype(np.float64)[axis].T
    theta = position * float(problem.params["freq_base"]) ** (-2 * power / turn.dims)
    if problem.params["factors"] == "given":
        theta = theta / inputs["factors"].astype(np.float64)
    ramp = np.clip((pair - turn.low) / turn.ramp, 0, 1)
    return np.asarray(theta * (turn.first + (turn.last - turn.first) * ramp))


def courses(mode: str, turn: Turning) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of a token's positions each pair goes by, and its power of the base."""
    pair = np.arange(turn.pairs)
    if mode not in COURSES:
        return np.zeros_like(pair), pair
    sizes = np.array(turn.sections)
    sector = pair % sizes.sum()
    if mode == "imrope":
        axis = sector % 3
        return np.where(sector < 3 * sizes[axis], axis, 3), pair
    ends = np.cumsum(sizes)
    axis = (sector[:, None] >= ends[:3]).sum(axis=1)
    return axis, sector - (ends - sizes)[axis] if mode == "vision" else pair


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """The first array has all four dimensions."""
    first, shape = next(iter(shapes.items()))
    if len(shape) != len(DIMS):
        raise UsageError(f"{first} has four dimensions ({', '.join(DIMS)}), got {len(shape)}")
    return dict(zip(DIMS, shape, strict=True))


def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return (types[next(iter(types))],)


PARAMS = {
    "mode": Param(
        default="norm",
        choices=MODES,
        description="which numbers are a pair, and which of a token's positions it goes by",
    ),
    "n_dims": Param(
        default=0, least=0, description="numbers of a head that are turned; 0: all, as for vision"
    ),
    "sections": Param(
        default="16.24.24.0",
        description="pairs that go by each of four positions, for mrope, imrope and vision",
    ),
    "freq_base": Param(default=10000.0, description="what angles of later pairs are divided by"),
    "freq_scale": Param(default=1.0, description="what angles are multiplied by"),
    "ext_factor": Param(default=0.0, description="yarn: how much of fast pairs' scale is 1"),
    "attn_factor": Param(default=1.0, description="what results are multiplied by"),
    "beta_fast": Param(default=32.0, description="yarn: turns of pairs that are fast"),
    "beta_slow": Param(default=1.0, description="yarn: turns of pairs that are slow"),
    "n_ctx_orig": Param(default=4096, least=1, description="yarn: positions within these turns"),
    "factors": Param(
        default="none", choices=FACTORS, description="whether pairs' angles have divisors"
    ),
    "layout": rows.LAYOUT,
}

_YARN = "attn_factor=1.4245,ext_factor=0.7465,freq_scale=0.25"
_CASES = (
    "f32/b1_n1_h1_k2",
    "f32/b2_n3_h32_k128",
    "f32/b1_n5_h3_k36/factors=given",
    "f32/b1_n7_h4_k80/mode=neox,n_dims=20",
    "f32/b1_n130_h1_k64/freq_base=1000000.0,mode=neox",
    f"f32/b1_n9_h8_k64/{_YARN},mode=neox",
    f"f32/b1_n4_h5_k128/{_YARN},factors=given,layout=strided",
    "f32/b1_n33_h2_k128/mode=mrope",
    "f32/b2_n11_h3_k128/mode=imrope,sections=24.20.20.0",
    "f32/b1_n17_h4_k80/mode=vision,sections=20.20.20.20",
    "f32/b1_n3_h2_k48/factors=given,layout=strided,mode=vision,sections=8.6.4.2",
    "f32/b1_n2_h2_k1030/layout=strided,mode=neox",
    "f16/b2_n3_h32_k128",
    "f16/b1_n5_h3_k36",
    f"f16/b1_n9_h8_k80/{_YARN},mode=neox,n_dims=64",
    "f16/b1_n7_h3_k70/layout=strided,mode=neox",
    "f16/b1_n33_h2_k128/factors=given,mode=mrope",
)
_TIMED = (
    "f32/b1_n512_h32_k128",
    "f32/b1_n4096_h32_k128",
    "f32/b1_n512_h32_k80/mode=neox,n_dims=20",
    "f32/b1_n4096_h32_k128/factors=given,mode=neox",
    "f32/b1_n512_h12_k128/mode=mrope",
    "f32/b1_n512_h12_k128/mode=imrope",
    "f32/b1_n2_h16_k80/mode=vision,sections=20.20.20.20",
    "f32/b1_n1_h32_k128",
    "f16/b1_n4096_h32_k128",
    "f16/b1_n4096_h32_k128/mode=neox",
)


def _parse_cases(name: str, cases: tuple[str, ...]) -> Iterator[Case]:
    return (parse(f"{name}/{case}") for case in cases)


def kernel(name: str, description: str, source: str, result: str, sign: float) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group="rope",
        dims=DIMS,
        bindings=(
            declare_input(source, TYPES, DIMS, "heads of tokens"),
            declare_input(
                "positions",
                ("i32",),
                ("n",),
                "of tokens, alike for all of the batch: one or four rows of them",
            ),
            declare_input(
                "factors",
                ("f32",),
                ("k",),
                "divisors of pairs' angles",
                when={"factors": ("given",)},
            ),
            declare_output(result, TYPES, DIMS, "the same, turned", same_as=source),
        ),
        params=PARAMS,
        forms=Forms(layout=layout, infer=infer),
        variants=(
            portable(
                "rope",
                lambda problem, device: launch(problem, sign),
                "f32",
                arguments=arguments,
                refuses=refuses,
                more=(Stage(entry="rope_ragged", arguments=arguments),),
            ),
        ),
        inputs=inputs,
        check=Check(
            reference=lambda problem, inputs, rows: reference(problem, inputs, rows, sign),
            rows="n",
        ),
        work=Work(flops=lambda problem: 3 * prod(problem.full_shape(source))),
        cases=CaseList(lambda: _parse_cases(name, _CASES)),
        timed=CaseList(lambda: _parse_cases(name, _TIMED if sign > 0 else _TIMED[:2])),
    )


ROPE = (
    kernel("rope", "Turns pairs of numbers of each head by its token's position.", "x", "y", 1.0),
    kernel("rope_back", "The gradient of rope: turns pairs back.", "dy", "dx", -1.0),
)
