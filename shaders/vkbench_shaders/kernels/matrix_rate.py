"""Products of cooperative matrices in registers: the most that a device's matrix units give."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders import noise, quants
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Problem,
    Variant,
    grid,
    too_large,
)

STEPS = 32  # of a round
CHAINS = 8  # tiles of a subgroup
SIDE = 16  # of a tile
MOST_EXACT = 1 << 10  # rounds after which halves still hold the sums
# formats of a and x -> k of a product, Slang types, device features beside cooperative matrices
KINDS: Mapping[tuple[str, str], tuple[int, tuple[str, str], tuple[str, ...]]] = {
    ("f16", "f16"): (16, ("half", "half"), ("fp16", "storage16")),
    ("f16", "f32"): (16, ("half", "float"), ("fp16", "storage16")),
    ("bf16", "f32"): (16, ("BFloat16", "float"), ("bf16", "storage16")),
    ("i8", "i32"): (32, ("int8_t", "int"), ("int8", "storage8")),
}


def _launch(problem: Problem, device: DeviceFacts) -> Launch:
    count = -(-problem.shape["t"] // CHAINS)
    groups = grid(count)
    return Launch(
        groups=groups,
        push=struct.pack("<3I", problem.shape["r"], groups[0], count),
        constants={0: device.subgroup_size},
    )


def _kind(types: Mapping[str, str]) -> tuple[str, str]:
    return types["a"], types["x"]


def _refuses(problem: Problem, device: DeviceFacts) -> str | None:
    shape, (depth, _, _) = problem.shape, KINDS[_kind(problem.types)]
    if (shape["m"], shape["n"], shape["k"]) != (SIDE, SIDE, depth):
        return f"is for m={SIDE}, n={SIDE}, k={depth}"
    if shape["t"] % CHAINS:
        return f"t is a multiple of {CHAINS}"
    if shape["r"] > MOST_EXACT:
        return f"the sums stay exact for {MOST_EXACT} rounds"
    return too_large(problem, device)


def _inputs(problem: Problem) -> dict[str, Array]:
    """Ones of either sign and zeros, such that a round adds a itself, or its halves added up."""

    b = _whole(problem, "b", -1, 3)
    unit = np.resize(np.eye(SIDE), b.shape)
    numbers = {"a": _whole(problem, "a", -1, 3), "b": b, "c": -b, "d": unit - b}
    numbers["x"] = _whole(problem, "x", -512, 1024)
    return {name: _stored(problem, name, values) for name, values in numbers.items()}


def _whole(problem: Problem, binding: str, low: int, count: int) -> Array:
    """Random whole numbers, so many different ones."""
    shape = problem.array_shape(binding)
    bits = noise.raw(problem.seed(binding), 2 * prod(shape)).view("<u2")
    return (low + (bits % count).astype("f8")).reshape(shape)


def _stored(problem: Problem, binding: str, values: Array) -> Array:
    fmt = problem.format(binding)
    return values.astype(fmt.dtype) if fmt.name[0] == "i" else quants.quantise(fmt.name, values)


def _reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    a, b, c, d = (_numbers(problem, name, inputs) for name in "abcd")
    added = a @ (STEPS / 2 * b + (STEPS / 2 - 1) * c + d)
    sums = _numbers(problem, "x", inputs) + problem.shape["r"] * added
    return {"y": _stored(problem, "y", sums)}


def _numbers(problem: Problem, binding: str, inputs: Arrays) -> Array:
    fmt = problem.format(binding)
    stored = inputs[binding]
    return stored.astype("f8") if fmt.name[0] == "i" else quants.dequantise(fmt.name, stored)


def _variant(kind: tuple[str, str]) -> Variant:
    depth, arguments, features = KINDS[kind]
    name = "_".join(kind)
    return Variant(
        name=name,
        module="matrix_rate",
        entry="matrix_rate",
        arguments=lambda types: (*arguments, str(depth)),
        launch=_launch,
        path="exact",
        requires=("coopmat", f"matrix_{name}", *features),
        accepts=lambda types: _kind(types) == kind,
        refuses=_refuses,
    )


def _cases(tiles: int, rounds: int) -> Iterator[Case]:
    for (narrow, wide), (depth, _, _) in KINDS.items():
        yield Case(
            kernel="matrix_rate",
            format=narrow,
            types={} if wide == "f32" else {"x": wide},
            shape={"t": tiles, "m": SIDE, "n": SIDE, "k": depth, "r": rounds},
        )


def _factor(name: str, dims: tuple[str, str], description: str) -> Binding:
    same_as = "" if name == "a" else "a"
    return Binding(
        name=name,
        access="in",
        types=("f16", "bf16", "i8"),
        dims=dims,
        same_as=same_as,
        description=description,
    )


def _sums(name: str, access: str, description: str) -> Binding:
    return Binding(
        name=name,
        access=access,
        types=("f32", "f16", "i32"),
        dims=("t", "m", "n"),
        same_as="x" if name == "y" else "",
        description=description,
    )


MATRIX_RATE = Kernel(
    name="matrix_rate",
    description=f"Rounds of {STEPS} products of cooperative matrices, added up in registers.",
    group="calibrate",
    dims=("t", "m", "n", "k", "r"),
    bindings=(
        _factor("a", ("m", "k"), "what all are multiplied by"),
        _factor("b", ("k", "n"), "of 16 products of a round"),
        _factor("c", ("k", "n"), "of 15"),
        _factor("d", ("k", "n"), "of the last one"),
        _sums("x", "in", "tiles that products are added to"),
        _sums("y", "out", "x + r a (16 b + 15 c + d)"),
    ),
    variants=tuple(map(_variant, KINDS)),
    accepts=lambda types: _kind(types) in KINDS,
    inputs=_inputs,
    reference=_reference,
    flops=lambda problem: 2 * STEPS * prod(problem.shape.values()),
    cases=(*_cases(8, 1), *_cases(16, 3), *_cases(264, 7)),
    timed=tuple(_cases(1 << 16, 128)),
)
