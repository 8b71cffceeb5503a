"""Reductions along any dimensions: sum, mean, max, min, argmax, argmin; and count_equal.

Of no numbers the sum is 0, the mean NaN, max -Inf, min Inf, argmax and argmin -1. A NaN is the
result of all but the last two, for which it is beyond every number; of equal ones they take the
first. 0 is more than -0 to max and min, and equal to it for argmax and argmin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import inf, prod

import numpy as np

from vkbench.case import Case, parse
from vkbench_shaders import quants
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Binding, Kernel, Param, Problem, Variant
from vkbench_shaders.kernels.reductions.count_equal import COUNT_EQUAL
from vkbench_shaders.kernels.reductions.reduce_plan import DIMS, THREADS, axes, layout, portable
from vkbench_shaders.kernels.shared import workgroups

AXES = tuple("".join(some) for count in range(1, 5) for some in combinations("bchw", count))

_Reduce = Callable[[Array, tuple[int, ...]], Array]  # keeps the reduced dimensions, with size 1


def _sum(x: Array, along: tuple[int, ...]) -> Array:
    return np.asarray(x.sum(axis=along, dtype=np.float64, keepdims=True))


def _mean(x: Array, along: tuple[int, ...]) -> Array:
    return np.asarray(_sum(x, along) / prod(x.shape[axis] for axis in along))


def _max(x: Array, along: tuple[int, ...]) -> Array:
    """numpy leaves the sign of 0 to chance."""
    found = x.max(axis=along, keepdims=True, initial=-inf)
    positive = ((x == 0) & ~np.signbit(x)).any(axis=along, keepdims=True)
    return np.asarray(np.where(found == 0, np.where(positive, 0.0, -0.0), found))


def _min(x: Array, along: tuple[int, ...]) -> Array:
    return np.asarray(-_max(-x, along))


def _argmax(x: Array, along: tuple[int, ...]) -> Array:
    """Of two and more dimensions, the index as if they were one."""
    kept = tuple(1 if axis in along else size for axis, size in enumerate(x.shape))
    length = prod(x.shape[axis] for axis in along)
    rows = np.moveaxis(x, along, range(-len(along), 0)).reshape(prod(kept), length)
    found = rows.argmax(axis=1) if length else np.full(prod(kept), -1)
    return found.astype(np.int32).reshape(kept)


def _argmin(x: Array, along: tuple[int, ...]) -> Array:
    return _argmax(-x, along)


def _inputs(problem: Problem) -> dict[str, Array]:
    return {"x": data.values(problem, "x")}


def _flops(problem: Problem) -> int:
    return prod(problem.array_shape("x"))


_SMALL = "b3_c4_h5_w10"
FORMATS = ("f32", "f16", "bf16")
_SHAPES = (  # checked in every format
    "b1_c1_h1_w1",
    "b1_c1_h1024_w33",
    "b1_c1_h1_w32769",
    "b2_c3_h5_w2/values=special",
    "b2_c3_h7_w70/layout=permuted,values=special",
    "b1_c1_h2500_w37/axes=h",
    "b2_c3_h101_w57/axes=cw,layout=strided",
    "b2_c5_h61_w129/axes=bchw",
)
_F32_SHAPES = (
    *(f"{_SMALL}/axes={axes}" for axes in AXES if axes != "w"),
    *(f"{_SMALL}/axes={axes},layout=permuted" for axes in ("w", "ch", "bchw")),
    *(f"{_SMALL}/axes={axes},layout=strided" for axes in ("w", "hw", "b")),
    "b1_c1_h3_w100003",
    "b2_c3_h4_w0",
    "b2_c3_h0_w5/axes=ch",
    "b2_c0_h4_w5",
    *(f"b1_c1_h1_w32769/threads={threads}" for threads in workgroups.SIZES),
    "b1_c2_h300_w37/axes=h,threads=64",
)
_TIMED = {  # what reduces rows, what reduces all
    False: (
        "b1_c1_h1_w8192",
        "b1_c1_h8192_w8192",
        "b1_c1_h8192_w128",
        "b1_c1_h512_w32000",
        "b1_c1_h8192_w8192/axes=h",
        "b3_c1_h256_w256",
    ),
    True: ("b1_c1_h8192_w8192/axes=hw", "b1_c1_h8192_w8192/axes=hw,layout=permuted"),
}


def _case(kernel: str, fmt: str, rest: str) -> Case:
    """A case by its name, whose parameters may be at their defaults."""
    shape, _, params = rest.partition("/")
    kept = [item for item in params.split(",") if item not in ("", "axes=w")]
    return parse("/".join(filter(None, (kernel, fmt, shape, ",".join(kept)))))


def _cases(kernel: str) -> Iterator[Case]:
    for fmt, shapes in (("f32", (*_SHAPES, *_F32_SHAPES)), ("f16", _SHAPES), ("bf16", _SHAPES)):
        yield from (_case(kernel, fmt, rest) for rest in shapes)


def _timed(kernel: str, whole: bool) -> Iterator[Case]:
    for rest in (*_TIMED[False], *(_TIMED[True] if whole else ())):
        yield _case(kernel, "f32", rest)
    yield _case(kernel, "f16", "b1_c1_h8192_w8192")


def _kernel(
    name: str, description: str, y: Binding, reduce: _Reduce, variant: Variant, *, whole: bool
) -> Kernel:
    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        x = quants.dequantise(problem.types["x"], inputs["x"])
        with np.errstate(invalid="ignore", divide="ignore"):
            found = reduce(x, axes(problem))
        return {"y": quants.quantise(problem.types["y"], found) if y is _NUMBER else found}

    return Kernel(
        name=name,
        group="reduce",
        description=description,
        dims=DIMS,
        empty=DIMS,
        bindings=(
            Binding(name="x", access="in", types=FORMATS, dims=DIMS, description="the numbers"),
            y,
        ),
        params={
            "axes": Param(default="w", choices=AXES, description="dimensions that are reduced"),
            "layout": Param(
                default="contiguous",
                choices=("contiguous", "strided", "permuted"),
                description="how arrays lie: without gaps, rows with gaps, dimensions exchanged",
            ),
            "values": data.VALUES,
            "threads": workgroups.THREADS,
        },
        tuning=workgroups.tuning(THREADS),
        layout=layout,
        variants=(variant,),
        inputs=_inputs,
        reference=reference,
        flops=_flops,
        cases=tuple(_cases(name)),
        timed=tuple(_timed(name, whole)),
    )


def _y(types: tuple[str, ...], description: str, same_as: str = "") -> Binding:
    return Binding(
        name="y", access="out", types=types, dims=DIMS, same_as=same_as, description=description
    )


_SUM = _y(("f32",), "sums; size 1 along reduced dimensions")
_MEAN = _y(("f32",), "means; size 1 along reduced dimensions")
_NUMBER = _y(FORMATS, "numbers of x; size 1 along reduced dimensions", same_as="x")
_INDEX = _y(("i32",), "indices, row by row where several dimensions are reduced")

REDUCE = (
    _kernel(
        "sum",
        "Adds up numbers along some dimensions, without loss to rounding on the way.",
        _SUM,
        _sum,
        portable("total", "f32_once"),
        whole=True,
    ),
    _kernel(
        "mean",
        "Means along some dimensions: their sum by their number.",
        _MEAN,
        _mean,
        portable("total", "f32_once", mean=True),
        whole=False,
    ),
    _kernel(
        "max",
        "The greatest number along some dimensions; NaN where there is one.",
        _NUMBER,
        _max,
        portable("extreme", "exact"),
        whole=True,
    ),
    _kernel(
        "min",
        "The least number along some dimensions; NaN where there is one.",
        _NUMBER,
        _min,
        portable("extreme", "exact", least=True),
        whole=False,
    ),
    _kernel(
        "argmax",
        "Where the greatest number along some dimensions is: the first one, NaN before all.",
        _INDEX,
        _argmax,
        portable("position", "exact"),
        whole=False,
    ),
    _kernel(
        "argmin",
        "Where the least number along some dimensions is: the first one, NaN before all.",
        _INDEX,
        _argmin,
        portable("position", "exact", least=True),
        whole=False,
    ),
    COUNT_EQUAL,
)
