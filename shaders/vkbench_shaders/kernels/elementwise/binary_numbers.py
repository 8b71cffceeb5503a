"""Arithmetic of integers and of f64: code paths and references of kernels that do it in singles."""

from __future__ import annotations

from math import prod

import numpy as np

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Array, Launch, Layout, Problem, Push, Variant, grid
from vkbench_shaders.kernels.elementwise import broadcast
from vkbench_shaders.kernels.shared import places

NARROW = ("i32", "u32", "u8", "i8", "i16")  # what is computed with in 32 bits
INTEGERS = (*NARROW, "i64")
NUMBERS = (*INTEGERS, "f64")
_THREADS = 128
_STEPS = 4  # slots a thread


def variants(name: str) -> tuple[Variant, ...]:
    """The code paths of an operation, each for numbers of one kind and what they need."""
    return (
        _variant(name, "integers", NARROW),
        _variant(name, "int64", ("i64",), "int64"),
        _variant(name, "fp64", ("f64",), "fp64"),
    )


def _variant(name: str, variant: str, formats: tuple[str, ...], *requires: str) -> Variant:
    return Variant(
        name=variant,
        module="binary_numbers",
        arguments=lambda types: (name.title(), _struct(types["y"])),
        launch=launch,
        arithmetic="exact",
        requires=requires,
        accepts=lambda types: types["y"] in formats,
    )


def _struct(fmt: str) -> str:
    """The struct of a format in binary_numbers.slang."""
    if format_named(fmt).bytes == 8:
        return "real" if fmt == "f64" else "wide"
    return f"{'unsigned' if fmt[0] == 'u' else 'signed'}<{format_named(fmt).bytes}>"


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    layouts = {name: problem.layout(name) for name in "aby"}
    shape = problem.full_shape("y")
    flat = all(layout == Layout.contiguous(shape) for layout in layouts.values())
    at_once = 4 // problem.item_bytes("y") if flat and problem.item_bytes("y") < 4 else 1
    groups = grid(-(-prod(shape) // (_THREADS * _STEPS * at_once)))
    push: Push = {
        "sizes": places.sizes(shape),
        **{name: broadcast.place(layout) for name, layout in layouts.items()},
        "flat": flat,
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": _THREADS})


def quotient(a: Array, b: Array) -> Array:
    """Quotients of integers, cut to integers; of 0 they are 0, and wrap around as sums do."""
    if a.dtype.kind == "u":
        return np.asarray(np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(a.dtype))
    unsigned = a.dtype.str.replace("i", "u")
    sizes = quotient(np.abs(a).view(unsigned), np.abs(b).view(unsigned)).view(a.dtype)
    return np.asarray(np.where((a ^ b) < 0, -sizes, sizes))
