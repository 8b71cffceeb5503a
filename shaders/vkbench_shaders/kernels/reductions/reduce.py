"""Reductions along any dimensions: sum, mean, max, min, argmax, argmin; and count_equal.

Of no numbers the sum is 0, the mean NaN, max -Inf, min Inf, argmax and argmin -1. A NaN is the
result of all but the last two, for which it is beyond every number; of equal ones they take the
first. 0 is more than -0 to max and min, and equal to it for argmax and argmin.

Sums of integers have the format of the integers and wrap around. Of no integers max is the least
number of the format, min the greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from math import inf, prod

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
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
    Param,
    Problem,
    Settings,
    Tuning,
    Variant,
    Work,
)
from vkbench_shaders.kernels.reductions.count_equal import COUNT_EQUAL
from vkbench_shaders.kernels.reductions.reduce_plan import (
    DIMS,
    FLOATS,
    THREADS,
    axes,
    layout,
    reduce_variant,
)
from vkbench_shaders.quantisers import quants

_SIZES = (64, 128, 256, 512, 1024)  # threads of a workgroup
AXES = tuple("".join(some) for count in range(1, 5) for some in combinations("bchw", count))

_Reduce = Callable[[Array, tuple[int, ...]], Array]  # keeps the reduced dimensions, with size 1


def _sum(x: Array, along: tuple[int, ...]) -> Array:
    return np.asarray(x.sum(axis=along, dtype=x.dtype, keepdims=True))


def _mean(x: Array, along: tuple[int, ...]) -> Array:
    return np.asarray(_sum(x, along) / prod(x.shape[axis] for axis in along))


def _max(x: Array, along: tuple[int, ...]) -> Array:
    """numpy leaves the sign of 0 to chance."""
    if x.dtype != np.float64:
        return np.asarray(x.max(axis=along, keepdims=True, initial=np.iinfo(x.dtype.str).min))
    largest = x.max(axis=along, keepdims=True, initial=-inf)
    positive = ((x == 0) & ~np.signbit(x)).any(axis=along, keepdims=True)
    return np.asarray(np.where(largest == 0, np.where(positive, 0.0, -0.0), largest))


def _min(x: Array, along: tuple[int, ...]) -> Array:
    return _reverse_order(_max(_reverse_order(x), along))


def _argmax(x: Array, along: tuple[int, ...]) -> Array:
    """Places of the largest numbers; several dimensions are numbered as if they were one."""
    kept = tuple(1 if axis in along else size for axis, size in enumerate(x.shape))
    length = prod(x.shape[axis] for axis in along)
    rows = np.moveaxis(x, along, range(-len(along), 0)).reshape(prod(kept), length)
    places = rows.argmax(axis=1) if length else np.full(prod(kept), -1)
    return places.astype(np.int32).reshape(kept)


def _argmin(x: Array, along: tuple[int, ...]) -> Array:
    return _argmax(_reverse_order(x), along)


def _reverse_order(x: Array) -> Array:
    """Numbers in the opposite order."""
    return np.asarray(-x if x.dtype == np.float64 else ~x)


def _inputs(problem: Problem) -> dict[str, Array]:
    """No sum of f64 may hide what is added to it, or have a square that is infinite."""
    x = data.values(problem, "x")
    if x.dtype == np.float64 and problem.kernel.name in ("sum", "mean"):
        x[np.isfinite(x) & (np.abs(x) > _LARGEST)] = _LARGEST
    return {"x": x}


def _flops(problem: Problem) -> int:
    return prod(problem.array_shape("x"))


_SMALL = "b3_c4_h5_w10"
_LARGEST = 1000.0  # of f64 that are added up
INTEGERS = ("i32", "u32", "i64", "u8", "i8", "i16")
FORMATS = (*FLOATS, "f64", *INTEGERS)
_SHAPES = (  # checked in every format of floats
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
    *(f"b1_c1_h1_w32769/threads={threads}" for threads in _SIZES),
    "b1_c2_h300_w37/axes=h,threads=64",
)
_FEW_SHAPES = (  # checked in other formats
    "b1_c1_h1_w1",
    "b2_c3_h5_w2/values=special",
    "b1_c1_h1_w32769",
    "b2_c3_h7_w70/layout=permuted",
    "b2_c3_h101_w57/axes=cw,layout=strided",
    "b1_c1_h2500_w37/axes=h",
    "b2_c3_h4_w0",
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
    types = fmt if kernel not in _ADDED or fmt in FLOATS else f"{fmt}:y={fmt}"
    return parse("/".join(filter(None, (kernel, types, shape, ",".join(kept)))))


def _cases(kernel: str) -> Iterator[Case]:
    yield from (_case(kernel, "f32", rest) for rest in (*_SHAPES, *_F32_SHAPES))
    for fmts, shapes in ((FLOATS[1:], _SHAPES), (FORMATS[len(FLOATS) :], _FEW_SHAPES)):
        for fmt in fmts:
            if kernel != "mean" or fmt not in INTEGERS:
                yield from (_case(kernel, fmt, rest) for rest in shapes)


def _timed_cases(kernel: str, whole: bool) -> Iterator[Case]:
    for rest in (*_TIMED[False], *(_TIMED[True] if whole else ())):
        yield _case(kernel, "f32", rest)
    yield _case(kernel, "f16", "b1_c1_h8192_w8192")


def _candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Any of the sizes that a device takes: first the usual one, or the largest below it."""
    most = device.limits.get("max_workgroup_invocations", THREADS)
    sizes = [size for size in _SIZES if size <= most]
    sizes.sort(key=lambda size: (size > THREADS, abs(size - THREADS)))
    return [{"threads": size} for size in sizes]


def _kernel(
    name: str,
    description: str,
    x: tuple[str, ...],
    y: Binding,
    reduce: _Reduce,
    variants: tuple[Variant, ...],
    *,
    whole: bool,
) -> Kernel:
    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        fmt = problem.types["x"]
        x = inputs["x"] if fmt in INTEGERS else quants.dequantise(fmt, inputs["x"])
        with np.errstate(invalid="ignore", divide="ignore"):
            reduced = reduce(x, axes(problem))
        return {"y": quants.quantise(problem.types["y"], reduced) if y is _NUMBER else reduced}

    return Kernel(
        name=name,
        group="reduce",
        description=description,
        dims=DIMS,
        forms=Forms(
            empty=DIMS,
            accepts=_accepts if name in _ADDED else lambda types: True,
            layout=layout,
        ),
        bindings=(
            declare_input("x", x, DIMS, "the numbers"),
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
            "threads": Param(
                default=0,
                choices=(0, *_SIZES),
                description="threads of a workgroup; 0: what should be fastest",
            ),
        },
        tuning=Tuning(params=("threads",), candidates=_candidates),
        variants=variants,
        inputs=_inputs,
        check=Check(reference=reference),
        work=Work(flops=_flops),
        cases=CaseList(lambda: _cases(name)),
        timed=CaseList(lambda: _timed_cases(name, whole)),
    )


def _y(types: tuple[str, ...], description: str, same_as: str = "") -> Binding:
    return declare_output("y", types, DIMS, description, same_as=same_as)


def _accepts(types: Mapping[str, str]) -> bool:
    """Results of narrow floats are f32, of other numbers what these are."""
    return types["y"] == ("f32" if types["x"] in FLOATS else types["x"])


_ADDED = ("sum", "mean")
_SUM = _y(("f32", *FORMATS[len(FLOATS) :]), "sums; size 1 along reduced dimensions")
_MEAN = _y(("f32", "f64"), "means; size 1 along reduced dimensions")
_NUMBER = _y(FORMATS, "numbers of x; size 1 along reduced dimensions", same_as="x")
_INDEX = _y(("i32",), "indices, row by row where several dimensions are reduced")

REDUCE = (
    _kernel(
        "sum",
        "Adds up numbers along some dimensions, floats without loss to rounding on the way;"
        " integers wrap around.",
        FORMATS,
        _SUM,
        _sum,
        (
            reduce_variant("total", "f32_once", formats=FLOATS),
            reduce_variant("total", "exact", formats=INTEGERS, variant="integers"),
            reduce_variant("total", "f64", formats=("f64",), variant="fp64", requires=("fp64",)),
        ),
        whole=True,
    ),
    _kernel(
        "mean",
        "Means along some dimensions: their sum by their number.",
        (*FLOATS, "f64"),
        _MEAN,
        _mean,
        (
            reduce_variant("total", "f32_once", formats=FLOATS, mean=True),
            reduce_variant(
                "total", "f64", formats=("f64",), mean=True, variant="fp64", requires=("fp64",)
            ),
        ),
        whole=False,
    ),
    _kernel(
        "max",
        "The greatest number along some dimensions; NaN where there is one.",
        FORMATS,
        _NUMBER,
        _max,
        (reduce_variant("extreme", "exact", formats=FORMATS),),
        whole=True,
    ),
    _kernel(
        "min",
        "The least number along some dimensions; NaN where there is one.",
        FORMATS,
        _NUMBER,
        _min,
        (reduce_variant("extreme", "exact", formats=FORMATS, least=True),),
        whole=False,
    ),
    _kernel(
        "argmax",
        "Where the greatest number along some dimensions is: the first one, NaN before all.",
        FORMATS,
        _INDEX,
        _argmax,
        (reduce_variant("position", "exact", formats=FORMATS),),
        whole=False,
    ),
    _kernel(
        "argmin",
        "Where the least number along some dimensions is: the first one, NaN before all.",
        FORMATS,
        _INDEX,
        _argmin,
        (reduce_variant("position", "exact", formats=FORMATS, least=True),),
        whole=False,
    ),
    COUNT_EQUAL,
)
