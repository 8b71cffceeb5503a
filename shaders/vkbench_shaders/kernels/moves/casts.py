"""to_dtype: numbers in another format, exactly as its description says, on every device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.inputs import noise
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Push,
    Work,
    grid,
)
from vkbench_shaders.kernels.shared.places import DIMS, LAYOUT, is_flat, layout, place, sizes
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import list_cases
from vkbench_shaders.quantisers import quants

TYPES = ("f32", "f16", "bf16", "f8_e4m3", "f64", "i64", "i32", "u32", "u8")
_TARGETS = ("f16", "f32", *TYPES[2:])  # not the first format to itself
INTEGERS = ("i64", "i32", "u32", "u8")
THREADS = 128
STEPS = 2  # slots a thread


def each(types: Mapping[str, str]) -> int:
    """Numbers a slot: 16 bytes of the wider format, but a word of the narrower one at least."""
    narrow, wide = sorted(format_named(types[name]).bytes for name in "xy")
    return max(16 // wide, 4 // narrow)


def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return f"number_{types['x']}", f"number_{types['y']}", str(each(types))


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    layouts = [problem.layout(name) for name in "xy"]
    shape = layouts[0].shape
    groups = grid(-(-prod(shape) // (THREADS * STEPS * each(problem.types))))
    push: Push = {
        "sizes": sizes(shape),
        **{name: place(layout) for name, layout in zip("xy", layouts, strict=True)},
        "flat": all(is_flat(layout) for layout in layouts),
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def inputs(problem: Problem) -> dict[str, Array]:
    """Any bits, small numbers, and neighbours of what y's format has and of what is between."""
    x, y = problem.types["x"], problem.types["y"]
    shape = problem.array_shape("x")
    dtype = problem.format("x").dtype
    values = noise.raw(problem.seed("x"), prod(shape) * dtype.itemsize).view(dtype).copy()
    if dtype.itemsize < 4:  # every one there is
        codes = np.arange(min(values.size, 1 << 8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
        values[: codes.size] = codes.view(dtype)
    else:
        values[::3] = _nearest_target(x, y, problem.seed("x.near"), values[::3].size)
        values[1::12] = _small(x, values[1::12])
    return {"x": values.reshape(shape)}


def _small(x: str, values: Array) -> Array:
    """Integers of all sizes, as numbers of the format."""
    whole = values.view("i8" if values.itemsize == 8 else "i4")
    whole = whole >> (np.arange(whole.size) % (8 * values.itemsize))
    with np.errstate(invalid="ignore"):
        return (whole + (0.5 if x in ("f32", "f64") else 0)).astype(values.dtype)


def _nearest_target(x: str, y: str, seed: int, count: int) -> Array:
    """Numbers of y's format and those half way between two of them, and what x has beside both."""
    dtype = format_named(x).dtype
    codes = noise.raw(seed, count * format_named(y).bytes).view(format_named(y).dtype)
    with np.errstate(all="ignore"):
        values = quants.dequantise(y, codes)
        after = quants.dequantise(y, (codes.view(f"u{codes.itemsize}") + 1).view(codes.dtype))
        middles = np.where(np.arange(count) % 2, values, values / 2 + after / 2)
        bits = middles.astype(dtype).view(f"u{dtype.itemsize}")
        bits += (np.arange(count) % 3).astype(bits.dtype)
        bits -= bits.dtype.type(1)
    return bits.view(dtype)


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, y = problem.types["x"], problem.types["y"]
    with np.errstate(all="ignore"):
        if y in INTEGERS and x in INTEGERS:
            return {"y": inputs["x"].astype(problem.format("y").dtype)}
        if y in INTEGERS:
            return {"y": _cut(quants.dequantise(x, inputs["x"]), problem.format("y").dtype)}
        if x in INTEGERS:
            return {"y": _round_integers(inputs["x"], y)}
        values = quants.dequantise(x, inputs["x"])
        return {"y": quants.quantise(y, np.where(np.isnan(values), np.nan, values))}  # quiet ones


def _cut(values: Array, dtype: np.dtype[np.generic]) -> Array:
    """Numbers without their fractions, as the nearest integer of a format; 0 for NaN."""
    limits = np.iinfo(dtype.str)
    inside = (values > float(limits.min) - 1) & (values < float(limits.max) + 1)
    inside &= values < 2.0 ** (8 * dtype.itemsize - (limits.min < 0))
    whole = np.where(inside, values, 0).astype(dtype)
    whole[~inside & (values > 0)] = limits.max
    whole[~inside & (values < 0)] = limits.min
    return whole


def _round_integers(values: Array, y: str) -> Array:
    """Integers in a floating point format; of more than 53 bits cut to odd first, but for f64."""
    if y in ("f32", "f64"):
        return values.astype(y.replace("f", "float"))
    if values.itemsize == 8:
        large = np.abs(values.astype("f8")) >= 2.0**53
        odd = (values & ~np.int64(2047)) | np.where(values & 2047, np.int64(2048), 0)
        values = np.where(large, odd, values)
    return quants.quantise(y, values.astype("f8"))


def _cases() -> Iterator[Case]:
    shapes = (1, 1, 1, 1), (1, 1, 3, 5), (2, 3, 17, 643)
    yield from _list_cases("f32", "f16", [(1, 1, 1, 0)])
    for x in TYPES:
        for y in TYPES:
            if x != y:
                yield from _list_cases(x, y, shapes)
                for how in ("strided", "permuted"):
                    yield from _list_cases(x, y, [(2, 3, 5, 67)], how)


_TIMED = [
    *("f32 f16", "f16 f32", "f32 bf16", "bf16 f32", "f16 bf16", "f32 f8_e4m3", "f8_e4m3 f32"),
    *("f32 f64", "f64 f32", "f32 i32", "i32 f32", "u8 f32", "f32 u8", "i64 i32", "i32 i64"),
]


def _timed_cases() -> Iterator[Case]:
    for x, y in (pair.split() for pair in _TIMED):
        yield from _list_cases(x, y, [(1, 1, 4096, 4096)])
    yield from _list_cases("f32", "f16", [(1, 1, 3072, 512)])
    yield from _list_cases("f32", "f16", [(1, 2, 512, 8192)], "permuted")


def _list_cases(
    x: str, y: str, shapes: Sequence[tuple[int, ...]], how: str = "contiguous"
) -> Iterator[Case]:
    yield from list_cases("to_dtype", x, {} if y == _TARGETS[0] else {"y": y}, DIMS, shapes, how)


TO_DTYPE = Kernel(
    name="to_dtype",
    description="Converts numbers to another format, rounding once to nearest even. What is too"
    " large for a floating point format becomes Inf, or NaN in f8_e4m3, which has none; floating"
    " point numbers are cut to integers, the nearest there is and 0 for NaN; integers wrap around.",
    group="cast",
    dims=DIMS,
    bindings=(
        declare_input("x", TYPES, DIMS, "numbers"),
        declare_output("y", _TARGETS, DIMS, "the same in another format"),
    ),
    params={"layout": LAYOUT},
    forms=Forms(accepts=lambda types: types["x"] != types["y"], layout=layout, empty=DIMS),
    variants=(portable("cast", launch, "exact", arguments=arguments),),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=lambda problem: prod(problem.array_shape("y"))),
    cases=CaseList(_cases),
    timed=CaseList(_timed_cases),
)
CASTS = (TO_DTYPE,)
