"""Element-wise operations of several steps in one launch: a snake, and a sum of several arrays."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi, prod

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
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
    Push,
    Work,
    grid,
)
from vkbench_shaders.kernels.elementwise import broadcast, strided
from vkbench_shaders.kernels.shared import rows
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor
from vkbench_shaders.quantisers import quants

_FORMATS = ("f32", "f16", "bf16")
_OF_CHANNELS = ("rates", "shares")
MOST_ADDED = 8
_ADDED = tuple(f"x{place}" for place in range(MOST_ADDED))
_THREADS = 128
_SLOTS = 4  # of a thread of multi_add.slang


def _lay_channels(problem: Problem, binding: str) -> Layout:
    """Rates and shares are a number a channel."""
    full = problem.full_shape(binding)
    if binding in _OF_CHANNELS:
        full = tuple(
            size if dim == "c" else min(size, 1)
            for dim, size in zip(strided.DIMS, full, strict=True)
        )
    return strided.lay_out_array(problem, binding, full)


def _draw_waves(problem: Problem) -> dict[str, Array]:
    """Angles of a few turns at most, as layers of vocoders have them."""
    return {
        "x": data.uniform(problem, "x", -pi, pi),
        "rates": data.uniform(problem, "rates", -3, 3),
        "shares": data.uniform(problem, "shares", -1, 1),
    }


def _add_squared_sines(problem: Problem, inputs: Arrays, sampled: Array | None) -> dict[str, Array]:
    x = quants.dequantise(problem.types["x"], inputs["x"])
    rates, shares = (inputs[name].astype(np.float64) for name in _OF_CHANNELS)
    sines = np.sin(x * rates)
    return {"y": x + sines * sines * shares}


def _list_snakes(fmt: str) -> Iterator[Case]:
    shapes = (
        *("b1_c7_h1_w5", "b2_c33_h1_w129", "b1_c32_h1_w264", "b2_c3_h5_w40/layout=permuted"),
        *("b1_c5_h3_w33/layout=strided", "b1_c3_h0_w4"),
    )
    return (parse(f"snake/{fmt}/{shape}") for shape in shapes[: None if fmt == "f32" else -2])


SNAKE = Kernel(
    name="snake",
    description="Adds the square of a sine: y = x + sin(rate x)^2 share, with a rate and a share"
    " for each channel, as vocoders have it.",
    group="unary",
    dims=strided.DIMS,
    bindings=(
        declare_input("x", _FORMATS, strided.DIMS, "numbers"),
        declare_input("rates", ("f32",), strided.DIMS, "what angles are multiplied by: 1, c, 1, 1"),
        declare_input("shares", ("f32",), strided.DIMS, "what squares are multiplied by, alike"),
        declare_output("y", _FORMATS, strided.DIMS, "sums, rounded once", same_as="x"),
    ),
    params={"layout": strided.LAYOUT},
    forms=Forms(
        empty=strided.DIMS,
        layout=_lay_channels,
        infer=lambda shapes, types: broadcast.infer({"a": shapes["x"]}, types),
    ),
    variants=(
        portable(
            "snake",
            lambda problem, device: strided.launch(problem),
            "f32",
            arguments=lambda types: (types["x"],),
        ),
    ),
    inputs=_draw_waves,
    check=Check(reference=_add_squared_sines),
    work=Work(flops=lambda problem: 5 * prod(problem.full_shape("y"))),
    cases=CaseList(lambda: (case for fmt in _FORMATS for case in _list_snakes(fmt))),
    timed=CaseList(lambda: (parse(f"snake/{fmt}/b1_c192_h1_w16384") for fmt in _FORMATS)),
)


def _launch_sums(problem: Problem, device: DeviceFacts) -> Launch:
    """A launch by vec4s where all rows begin and end at whole ones, else by numbers."""
    m, k = problem.shape["m"], problem.shape["k"]
    places = {name: _place_rows(problem, name) for name in (*_ADDED, "y")}
    slot_items = 1 if any(number % 4 for place in places.values() for number in (k, *place)) else 4
    slots = m * (k // slot_items)
    groups = grid(-(-slots // (_THREADS * _SLOTS)))
    push: Push = {
        **{name: tuple(number // slot_items for number in place) for name, place in places.items()},
        "count": slots,
        "columns": divisor(max(k // slot_items, 1)),
        "groups_x": groups[0],
    }
    constants = {
        "THREADS": _THREADS,
        "WIDE": int(slot_items == 4),
        "ADDED": int(problem.params["count"]),
    }
    return Launch(groups=groups, push=push, constants=constants)


def _place_rows(problem: Problem, binding: str) -> tuple[int, int]:
    """Offset and stride of rows; of what is not read both are 0."""
    if not problem.reads(binding):
        return 0, 0
    layout = problem.layout(binding)
    return layout.offset, layout.strides[0]


def _add_all(problem: Problem, inputs: Arrays, sampled: Array | None) -> dict[str, Array]:
    chosen = slice(None) if sampled is None else sampled
    count = int(problem.params["count"])
    arrays = [inputs[name][chosen].astype(np.float64) for name in _ADDED[:count]]
    return {"y": np.sum(arrays, axis=0)}


_SUMS = (
    *("m1_k1/count=2", "m5_k33/count=5", "m33_k64/count=8", "m129_k260/count=4"),
    *("m7_k33/count=7,layout=strided", "m3_k64/count=6,layout=strided", "m0_k4"),
)

MULTI_ADD = Kernel(
    name="multi_add",
    description="Adds up to eight arrays in one launch, in their order: y = x0 + x1 + x2 ...",
    group="binary",
    dims=("m", "k"),
    bindings=(
        *(
            declare_input(
                name,
                ("f32",),
                ("m", "k"),
                f"array {place} of the sum",
                when={"count": tuple(range(place + 1, MOST_ADDED + 1))} if place > 1 else None,
            )
            for place, name in enumerate(_ADDED)
        ),
        declare_output("y", ("f32",), ("m", "k"), "sums"),
    ),
    params={
        "count": Param(
            default=3, choices=tuple(range(2, MOST_ADDED + 1)), description="arrays that are added"
        ),
        "layout": rows.LAYOUT,
    },
    forms=Forms(layout=rows.layout, empty=("m",)),
    variants=(portable("multi_add", _launch_sums, "f32"),),
    inputs=lambda problem: {name: data.uniform(problem, name, -4, 4) for name in _ADDED},
    check=Check(reference=_add_all, rows="m"),
    work=Work(
        flops=lambda problem: (int(problem.params["count"]) - 1) * prod(problem.full_shape("y"))
    ),
    cases=CaseList(lambda: (parse(f"multi_add/f32/{case}") for case in _SUMS)),
    timed=CaseList(
        lambda: (parse(f"multi_add/f32/{case}") for case in ("m512_k4096", "m4096_k4096/count=8"))
    ),
)

JOINED = (SNAKE, MULTI_ADD)
