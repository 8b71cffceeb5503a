"""Pools: means and largest numbers of windows, along one axis or two.

As in torch and in ggml's 2-D pools the padding counts in a mean, as zeros; `divisor=inside` leaves
it out, as ggml's 1-D pool does. The largest number of a window is its NaN, if it has one, and -Inf
where all of it is padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

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
from vkbench_shaders.kernels.images import windows
from vkbench_shaders.kernels.images.windows import Window
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor
from vkbench_shaders.quantisers import quants

FORMATS = ("f32", "f16", "bf16")
THREADS = 128
ROWS = 4  # of a thread's patch


@dataclass(frozen=True)
class Pool:
    """One operation: what it makes of a window, along which axes."""

    name: str
    axes: str
    type: str  # in the shader
    path: str
    description: str

    @property
    def dims(self) -> tuple[str, ...]:
        return ("n", "c", *self.axes)


def along(problem: Problem) -> tuple[Window, ...]:
    return windows.windows(problem, "".join(problem.kernel.dims[2:]))


def layout(problem: Problem, binding: str) -> Layout:
    if binding == "x":
        return Layout.contiguous(problem.full_shape("x"))
    sizes = (problem.shape["n"], problem.shape["c"], *(axis.count for axis in along(problem)))
    return Layout.contiguous(sizes)


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    planes, height, width = _planes(problem)
    words = -(-width.count // (4 // problem.item_bytes("y")))
    patches = -(-height.count // ROWS)
    count = planes * patches * words
    groups = grid(-(-count // THREADS))
    push: Push = {
        "height": height.push,
        "width": width.push,
        "words": divisor(words),
        "patches": divisor(patches),
        "count": count,
        "groups_x": groups[0],
    }
    inside = problem.params.get("divisor") == "inside"
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS, "INSIDE": inside})


def _planes(problem: Problem) -> tuple[int, Window, Window]:
    """How many there are, and their windows; arrays of one axis are rows of a single plane."""
    count, axes = problem.shape["n"] * problem.shape["c"], along(problem)
    if len(axes) == 1:
        return min(1, count), Window(size=max(1, count), taps=1), axes[0]
    return count, axes[0], axes[1]


def mean(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, axes = _channels(problem, inputs, rows), along(problem)
    total = _total(x, axes)
    if problem.params["divisor"] == "window":
        return {"y": total / prod(axis.taps for axis in axes)}
    places = _total(np.ones_like(x), axes)
    return {"y": np.divide(total, places, out=np.full_like(total, np.nan), where=places > 0)}


def _total(x: Array, axes: tuple[Window, ...]) -> Array:
    total = np.zeros((*x.shape[:2], *(axis.count for axis in axes)))
    for _, seen in windows.taps(x, axes, 0.0):
        total += seen
    return total


def largest(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x = _channels(problem, inputs, rows)
    most = np.full(x.shape[:2] + layout(problem, "y").shape[2:], -np.inf)
    plus = np.zeros(most.shape, bool)  # whether a window has +0, which is above -0
    for _, seen in windows.taps(x, along(problem), -np.inf):
        most = np.maximum(most, seen)
        plus |= (seen == 0) & ~np.signbit(seen)
    return {"y": np.where(most == 0, np.where(plus, 0.0, -0.0), most)}


def _channels(problem: Problem, inputs: Arrays, rows: Array | None) -> Array:
    x = inputs["x"] if rows is None else inputs["x"][:, rows]
    return quants.dequantise(problem.types["x"], x)


_DIVISOR = Param(
    default="window",
    choices=("window", "inside"),
    description="what a mean divides by: all places of a window, or those outside the padding",
)
# one number, padding in all of a window, steps over numbers, windows that overlap
_SHAPES = {
    "w": (
        "n1_c1_w1/kernel=1",
        "n0_c2_w5",
        "n1_c1_w1/kernel=2,padding=3,stride=2",
        "n2_c3_w17",
        "n1_c5_w130/kernel=2,stride=2",
        "n3_c2_w61/kernel=2,padding=1,stride=5",
        "n1_c1_w31/kernel=31",
        "n1_c67_w67/kernel=5,padding=2,stride=2",
        "n2_c3_w37/padding=1,values=special",
    ),
    "hw": (
        "n1_c1_h1_w1/kernel=1",
        "n0_c2_h5_w4",
        "n2_c3_h10_w10/padding=1",
        "n1_c3_h7_w133/kernel=2,stride=2",
        "n1_c2_h13_w9/kernel=2,kernel_h=5,padding=1,padding_h=0,stride_h=3",
        "n2_c2_h5_w6/kernel=1,padding=2,stride=3",
        "n1_c1_h33_w2/kernel=2,padding=1",
        "n1_c7_h65_w67/padding=1,stride=2",
        "n1_c3_h14_w15/padding=1,values=special",
    ),
}
_INSIDE = {
    "w": ("n2_c3_w17/divisor=inside,padding=2", "n1_c1_w5/divisor=inside,kernel=2,padding=3"),
    "hw": ("n2_c3_h10_w9/divisor=inside,padding=1", "n1_c2_h4_w5/divisor=inside,padding=3"),
}
_TIMED = {
    "w": ("n16_c512_w16384/kernel=2,stride=2",),
    "hw": (
        "n16_c64_h512_w512/kernel=2,stride=2",
        "n16_c64_h112_w112/padding=1,stride=2",
        "n4_c128_h256_w256/padding=1",
        "n1_c16_h1021_w1021/kernel=2,stride=2",
    ),
}
_POOLS = (
    Pool("avg_pool1d", "w", "Mean", "f32", "Takes the mean of windows along the last axis."),
    Pool("avg_pool2d", "hw", "Mean", "f32", "Takes the mean of windows along the last two axes."),
    Pool(
        "max_pool1d", "w", "Largest", "exact", "Takes the largest of windows along the last axis."
    ),
    Pool(
        "max_pool2d",
        "hw",
        "Largest",
        "exact",
        "Takes the largest of windows along the last two axes.",
    ),
)


def _cases(pool: Pool) -> Iterator[Case]:
    more = _INSIDE[pool.axes] if pool.type == "Mean" else ()
    shapes = (*_SHAPES[pool.axes], *more)
    for fmt in FORMATS[:2]:
        yield from (parse(f"{pool.name}/{fmt}/{shape}") for shape in shapes)
    yield from (parse(f"{pool.name}/bf16/{shape}") for shape in shapes[4:9:2])


def _timed_cases(pool: Pool) -> Iterator[Case]:
    first, *others = _TIMED[pool.axes]
    yield from (parse(f"{pool.name}/f32/{shape}") for shape in (first, *others))
    yield parse(f"{pool.name}/f16/{first}")


def _params(pool: Pool) -> Mapping[str, Param]:
    own = {"divisor": _DIVISOR} if pool.type == "Mean" else {}
    sizes = windows.params(pool.axes, "kernel", "stride", "padding")
    return {**sizes, **own, "values": data.VALUES}


def _kernel(pool: Pool) -> Kernel:
    return Kernel(
        name=pool.name,
        group="pool",
        description=pool.description,
        dims=pool.dims,
        bindings=(
            declare_input("x", FORMATS, pool.dims, "arrays, one for each channel of each of n"),
            declare_output("y", FORMATS, pool.dims, "a number a window", same_as="x"),
        ),
        params=_params(pool),
        forms=Forms(layout=layout, empty=("n",)),
        variants=(
            portable("pool", launch, pool.path, arguments=lambda types: (pool.type, types["x"])),
        ),
        inputs=lambda problem: {"x": data.values(problem, "x")},
        check=Check(reference=mean if pool.type == "Mean" else largest, rows="c"),
        work=Work(
            flops=lambda problem: (
                prod(problem.array_shape("y")) * prod(axis.taps for axis in along(problem))
            ),
        ),
        cases=CaseList(lambda: _cases(pool)),
        timed=CaseList(lambda: _timed_cases(pool)),
    )


POOL = tuple(_kernel(pool) for pool in _POOLS)
