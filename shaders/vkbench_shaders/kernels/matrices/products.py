"""What products of weights and vectors share: their references, shapes and alignment."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.device import NVIDIA, DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import formats
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Problem,
    Shapes,
    matrix_shape,
    too_large,
)
from vkbench_shaders.quantisers import quants

WEIGHTS = (*formats.WEIGHTS, *formats.PLAIN)
BYTES_ALONE: Final = "q8_0"  # of vectors in blocks, those without sums
VECTORS = ("f32", "f16", "q8_1", BYTES_ALONE)
BINDINGS = (
    declare_input("weights", WEIGHTS, ("m", "k"), "matrix, row by row"),
    declare_input("x", VECTORS, ("n", "k"), "vectors, one a row"),
    declare_output("y", ("f32",), ("n", "m"), "products, one vector a row"),
)
PLAIN_UNIT = 8  # weights of a plain format that a thread takes at a time
QUANTISED_UNIT = 32
ROWS = 4  # rows of y a workgroup, where vectors are few
MOST_COLUMNS = 8  # of y, a workgroup; more go on along z
_WIDE = 16  # bytes of the widest load
TILE_STEP = 32  # numbers along k that a tile takes at a time
_TABLE = 8192  # bytes of shared memory that a quantised format's table may take


def accepts(types: Mapping[str, str]) -> bool:
    """Integer products are for quantised weights: with q8_1 for all, with q8_0 for q4_0."""
    if types["x"] == BYTES_ALONE:
        return types["weights"] == "q4_0"
    return types["x"] != "q8_1" or types["weights"] not in formats.PLAIN


def is_blocks(types: Mapping[str, str]) -> bool:
    """Whether x is blocks of bytes with their sums."""
    return types["x"] == "q8_1"


def is_numbers(types: Mapping[str, str]) -> bool:
    """Whether x is plain numbers."""
    return types["x"] not in ("q8_1", BYTES_ALONE)


def unit(problem: Problem) -> int:
    """Weights a thread takes at a time."""
    return QUANTISED_UNIT if problem.format("weights").quantised else PLAIN_UNIT


def are_rows_aligned(problem: Problem) -> bool:
    """Whether all rows of plain weights and of plain x begin on 16 bytes and are whole units."""
    if problem.shape["k"] % unit(problem):
        return False
    plain = [name for name in ("weights", "x") if not problem.format(name).quantised]
    return all(_begins_wide(problem, name) for name in plain)


def in_words(problem: Problem) -> bool:
    """Whether all rows of weights begin on words."""
    layout, item = problem.layout("weights"), problem.item_bytes("weights")
    return all(place * item % 4 == 0 for place in (layout.offset, *layout.strides[:-1]))


def _begins_wide(problem: Problem, binding: str) -> bool:
    layout, item = problem.layout(binding), problem.item_bytes(binding)
    return all(number * item % _WIDE == 0 for number in (layout.offset, *layout.strides[:-1]))


def places(problem: Problem, binding: str, *strides: str) -> dict[str, int]:
    """Push constants: a binding's offset, and its strides by the names that the shader gives them.

    They are bytes of weights and of blocks, else items. The innermost stride is none of them.
    """
    layout = problem.layout(binding)
    unit = problem.item_bytes(binding) if binding == "weights" else 1
    numbers = zip(("offset", *strides), (layout.offset, *layout.strides[:-1]), strict=False)
    return {f"{binding}_{name}": number * unit for name, number in numbers}


def sizes(problem: Problem, groups: tuple[int, int, int]) -> dict[str, int]:
    """Push constants of a product in these workgroups: its sizes, and where its arrays lie."""
    push = {**{dim: problem.shape[dim] for dim in "mnk"}, "groups_x": groups[0]}
    for name in ("weights", "x", "y"):
        push |= places(problem, name, "stride")
    return push


def room_for_sums(device: DeviceFacts, threads: int, columns: int) -> int:
    """Numbers that a workgroup with few vectors keeps to add up its threads' sums, in any way."""
    subgroups = -(-threads // least_threads(device))
    return ROWS * max(threads, columns * subgroups)


def columns(problem: Problem) -> int:
    """Columns of y per workgroup when there are few vectors."""
    return min(problem.shape["n"], MOST_COLUMNS)


def flops(problem: Problem) -> int:
    """A product and a sum for each weight and vector."""
    return 2 * prod(problem.layout("weights").shape[:-1]) * problem.shape["n"] * problem.shape["k"]


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device has no launch for a product with few vectors, if it has none."""
    if problem.shape["n"] > MOST_COLUMNS * MOST_GROUPS:
        return f"n is {problem.shape['n']}, one launch makes {MOST_COLUMNS * MOST_GROUPS} at most"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Make the weights and vectors of a case."""
    return {
        "weights": data.weights(problem, "weights"),
        "x": data.activations(problem, "x"),
    }


def exact_weights(problem: Problem, inputs: Arrays, rows: Array | None) -> NDArray[np.float64]:
    """The weights in float64; only some rows if given."""
    weights = inputs["weights"] if rows is None else inputs["weights"][..., rows, :]
    return quants.dequantise(problem.types["weights"], weights)


def exact_x(problem: Problem, inputs: Arrays) -> NDArray[np.float64]:
    """The vectors in float64."""
    return quants.dequantise(problem.types["x"], inputs["x"])


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes from a matrix of weights and one of vectors."""
    m, k = matrix_shape("weights", shapes, types)
    n, width = matrix_shape("x", shapes, types)
    if width != k:
        raise UsageError(
            f"weights have rows of {k} numbers, x has rows of {width}: they must be equal"
        )
    return {"m": m, "n": n, "k": k}


def type_part(weights: str, x: str) -> str:
    """The formats in a case's name."""
    return weights if x == "f32" else f"{weights}:x={x}"


def is_wide(problem: Problem, binding: str, step: int = TILE_STEP) -> bool:
    """Whether rows of plain numbers begin on 16 bytes and are whole steps of so many."""
    if problem.format(binding).quantised:
        return True
    layout, item = problem.layout(binding), problem.item_bytes(binding)
    starts = (layout.offset, *layout.strides[:-1])
    return problem.shape["k"] % step == 0 and all(start * item % _WIDE == 0 for start in starts)


def table_bytes(problem: Problem) -> int:
    """Shared memory that the weights' format may take for its table."""
    return _TABLE if problem.format("weights").quantised else 0


def room(problem: Problem, device: DeviceFacts) -> int:
    """Bytes of shared memory that the table leaves."""
    return device.limits["max_shared_bytes"] - table_bytes(problem)


# threads: CPU drivers whose subgroups have fewer compile code for several blocks for 10 s
LEAST_SUBGROUP: Final = 8
_SMALLER = 8  # threads of the subgroups that drivers may run though they report larger ones


def least_threads(device: DeviceFacts) -> int:
    """Threads of the smallest subgroup that the driver may run."""
    if device.vendor_id == NVIDIA:
        return device.subgroup_size
    return min(device.subgroup_size, _SMALLER)
