"""Products of cooperative matrices in registers: the most that a device's matrix units give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import noise
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Variant,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.quantisers import quants

STEPS = 32  # of a round
CHAINS = 8  # tiles of a subgroup
MOST_EXACT = 1 << 10  # rounds after which halves still hold the sums


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Products of one size: sums of `side` x `side`, by their formats."""

    side: int
    suffix: str  # of the device features that say which of them a device has
    depths: Mapping[tuple[str, str], int]  # formats of a and x -> k of a product


LARGE = Tiles(
    side=16,
    suffix="",
    depths={("f16", "f16"): 16, ("f16", "f32"): 16, ("bf16", "f32"): 16, ("i8", "i32"): 32},
)
SMALL = Tiles(
    side=8,
    suffix="_8x8x8",
    depths={("f16", "f16"): 8, ("f16", "f32"): 8, ("i8", "i32"): 8},
)
SLANG = {"f16": "half", "f32": "float", "bf16": "BFloat16", "i8": "int8_t", "i32": "int"}
# format of a -> device features beside cooperative matrices
FEATURES = {
    "f16": ("fp16", "storage16"),
    "bf16": ("bf16", "storage16"),
    "i8": ("int8", "storage8"),
}


def _launch(problem: Problem, device: DeviceFacts) -> Launch:
    count = -(-problem.shape["t"] // CHAINS)
    groups = grid(count)
    return Launch(
        groups=groups,
        push={"rounds": problem.shape["r"], "groups_x": groups[0], "groups": count},
        constants={"THREADS": device.subgroup_size},
    )


def _kind(types: Mapping[str, str]) -> tuple[str, str]:
    return types["a"], types["x"]


def _refuses(tiles: Tiles, problem: Problem, device: DeviceFacts) -> str | None:
    shape, side, depth = problem.shape, tiles.side, tiles.depths[_kind(problem.types)]
    if (shape["m"], shape["n"], shape["k"]) != (side, side, depth):
        return f"is for m={side}, n={side}, k={depth}"
    if shape["t"] % CHAINS:
        return f"t is a multiple of {CHAINS}"
    if shape["r"] > MOST_EXACT:
        return f"the sums stay exact for {MOST_EXACT} rounds"
    return too_large(problem, device)


def _inputs(problem: Problem) -> dict[str, Array]:
    """Ones of either sign and zeros, such that a round adds a itself, or its halves added up."""

    b = _draw_integers(problem, "b", -1, 3)
    unit = np.resize(np.eye(problem.shape["n"]), b.shape)
    numbers = {"a": _draw_integers(problem, "a", -1, 3), "b": b, "c": -b, "d": unit - b}
    numbers["x"] = _draw_integers(problem, "x", -512, 1024)
    return {name: _store_values(problem, name, values) for name, values in numbers.items()}


def _draw_integers(problem: Problem, binding: str, low: int, count: int) -> Array:
    """Random whole numbers, so many different ones."""
    shape = problem.array_shape(binding)
    bits = noise.raw(problem.seed(binding), 2 * prod(shape)).view("<u2")
    return (low + (bits % count).astype("f8")).reshape(shape)


def _store_values(problem: Problem, binding: str, values: Array) -> Array:
    fmt = problem.format(binding)
    return values.astype(fmt.dtype) if fmt.name[0] == "i" else quants.quantise(fmt.name, values)


def _reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    a, b, c, d = (_numbers(problem, name, inputs) for name in "abcd")
    added = a @ (STEPS / 2 * b + (STEPS / 2 - 1) * c + d)
    sums = _numbers(problem, "x", inputs) + problem.shape["r"] * added
    return {"y": _store_values(problem, "y", sums)}


def _numbers(problem: Problem, binding: str, inputs: Arrays) -> Array:
    fmt = problem.format(binding)
    stored = inputs[binding]
    return stored.astype("f8") if fmt.name[0] == "i" else quants.dequantise(fmt.name, stored)


def _variant(tiles: Tiles, kind: tuple[str, str]) -> Variant:
    side, depth = tiles.side, tiles.depths[kind]
    name = "_".join(kind)
    return Variant(
        name=name,
        module="matrix_rate",
        arguments=lambda types: (*(SLANG[fmt] for fmt in kind), str(side), str(depth)),
        launch=_launch,
        arithmetic="exact",
        requires=("coopmat", f"matrix_{name}{tiles.suffix}", *FEATURES[kind[0]]),
        accepts=lambda types: _kind(types) == kind,
        refuses=partial(_refuses, tiles),
    )


def _cases(kernel: str, tiles: Tiles, count: int, rounds: int) -> Iterator[Case]:
    for (narrow, wide), depth in tiles.depths.items():
        yield Case(
            kernel=kernel,
            format=narrow,
            types={} if wide == "f32" else {"x": wide},
            shape={"t": count, "m": tiles.side, "n": tiles.side, "k": depth, "r": rounds},
        )


_SUMS = ("f32", "f16", "i32")


def _factor(tiles: Tiles, name: str, dims: tuple[str, str], description: str) -> Binding:
    types = tuple(dict.fromkeys(narrow for narrow, _ in tiles.depths))
    return declare_input(name, types, dims, description, same_as="" if name == "a" else "a")


def _kernel(name: str, tiles: Tiles, timed: tuple[Case, ...]) -> Kernel:
    side = f"{tiles.side} x {tiles.side}"
    return Kernel(
        name=name,
        description=f"Rounds of {STEPS} products of cooperative matrices, {side}, in registers.",
        group="calibrate",
        dims=("t", "m", "n", "k", "r"),
        bindings=(
            _factor(tiles, "a", ("m", "k"), "what all are multiplied by"),
            _factor(tiles, "b", ("k", "n"), "of 16 products of a round"),
            _factor(tiles, "c", ("k", "n"), "of 15"),
            _factor(tiles, "d", ("k", "n"), "of the last one"),
            declare_input("x", _SUMS, ("t", "m", "n"), "tiles that products are added to"),
            declare_output("y", _SUMS, ("t", "m", "n"), "x + r a (16 b + 15 c + d)", same_as="x"),
        ),
        variants=tuple(_variant(tiles, kind) for kind in tiles.depths),
        forms=Forms(accepts=lambda types: _kind(types) in tiles.depths),
        inputs=_inputs,
        check=Check(reference=_reference),
        work=Work(flops=lambda problem: 2 * STEPS * prod(problem.shape.values())),
        cases=CaseList(
            lambda: (
                case for of in ((8, 1), (16, 3), (264, 7)) for case in _cases(name, tiles, *of)
            )
        ),
        timed=timed,
    )


MATRIX_RATE = _kernel("matrix_rate", LARGE, timed=tuple(_cases("matrix_rate", LARGE, 1 << 16, 128)))
# 8 x 8 x 8 is what Mesa's lavapipe has: no GPU's roof, but a check of cooperative matrices.
MATRIX_RATE_8 = _kernel("matrix_rate_8", SMALL, timed=tuple(_cases("matrix_rate_8", SMALL, 64, 4)))
