"""Triangles and diagonals of matrices: tri, diag and diag_mask_inf, items moved as bits.

Rows of a matrix lie along h, its columns along w. See slang/moves/triangles.slang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from vkbench.case import Case
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
    Work,
)
from vkbench_shaders.kernels.moves.mapping import (
    THREADS,
    TYPES,
    Change,
    groups_of,
    item_bytes,
    list_cases,
)
from vkbench_shaders.kernels.shared import places, rows
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable

_LOWER, _UPPER, _DIAGONAL = range(3)  # the kinds of triangles.slang
_MINUS_INFINITY: Final = {"f32": 0xFF800000, "f16": 0xFC00FC00}  # a word of them
_VECTORS: Final = ("b", "c", "w")


@dataclass(frozen=True, kw_only=True)
class _Triangle:
    """Which items of a matrix stay."""

    kind: int
    shift: int  # columns of the first row that stay, or of an upper triangle those that do not

    def keeps(self, height: int, width: int) -> Array:
        """Whether an item stays, for each of a matrix."""
        row, column = np.ogrid[:height, :width]
        edge = row + self.shift
        return np.asarray(column < edge if self.kind == _LOWER else column >= edge)

    def count_kept(self, height: int, width: int) -> int:
        """How many items of a matrix stay."""
        edges = np.clip(np.arange(height) + self.shift, 0, width)
        return int((edges if self.kind == _LOWER else width - edges).sum())


_TRIANGLES: Final[Mapping[str, _Triangle]] = {
    "lower": _Triangle(kind=_LOWER, shift=1),
    "below": _Triangle(kind=_LOWER, shift=0),
    "upper": _Triangle(kind=_UPPER, shift=0),
    "above": _Triangle(kind=_UPPER, shift=1),
}


def _triangle_of(problem: Problem) -> _Triangle:
    """The triangle that stays: of diag_mask_inf a row sees the positions before it, too."""
    if problem.kernel.name == "tri":
        return _TRIANGLES[str(problem.params["part"])]
    return _Triangle(kind=_LOWER, shift=int(problem.params["past"]) + 1)


def _launch(problem: Problem, x: Layout, triangle: _Triangle, fill: int = 0) -> Launch:
    """A launch over y; along a dimension of size 1 that y has more of, x stays where it is."""
    groups, place = groups_of(problem), places.place(x)
    if triangle.kind == _DIAGONAL:
        place |= {"h": 0, "w": x.strides[3]}
    return Launch(
        groups=groups,
        push={
            "sizes": places.sizes(problem.array_shape("y")),
            "x": place,
            "shift": triangle.shift,
            "fill": fill,
            "groups_x": groups[0],
        },
        constants={"THREADS": THREADS, "KIND": triangle.kind, "FILLED": int(fill != 0)},
    )


def _launch_triangle(problem: Problem) -> Launch:
    hides = problem.kernel.name == "diag_mask_inf"
    fill = _MINUS_INFINITY[problem.types["x"]] if hides else 0
    return _launch(problem, problem.layout("x"), _triangle_of(problem), fill)


def _launch_diagonal(problem: Problem) -> Launch:
    b, c, w = (x := problem.layout("x")).shape
    strides = (x.strides[0], x.strides[1], 0, x.strides[2])
    matrices = Layout(shape=(b, c, 1, w), strides=strides, offset=x.offset, storage=x.storage)
    return _launch(problem, matrices, _Triangle(kind=_DIAGONAL, shift=0))


def _lay_matrices(problem: Problem, binding: str) -> Layout:
    """y has no gaps; x lies by the parameter `layout`."""
    if binding == "y":
        return Layout.contiguous(problem.full_shape(binding))
    return places.layout(problem, binding)


def _lay_vectors(problem: Problem, binding: str) -> Layout:
    """Matrices have no gaps; diagonals lie by the parameter `layout`."""
    if binding == "y":
        return Layout.contiguous(problem.full_shape(binding))
    return rows.layout(problem, binding)


def _reference(problem: Problem, inputs: Arrays, sampled: Array | None) -> dict[str, Array]:
    """Items that stay, and in the place of others 0 or minus infinity."""
    x = inputs["x"]
    keeps = _triangle_of(problem).keeps(*x.shape[2:])
    hides = problem.kernel.name == "diag_mask_inf"
    other = np.array(-np.inf if hides else 0).astype(x.dtype)
    return {"y": np.where(keeps, x, other)}


def _moved_bytes(problem: Problem) -> int:
    """Bytes that have to be moved: of x those of items that stay."""
    *matrices, height, width = problem.array_shape("y")
    kept = _triangle_of(problem).count_kept(height, width)
    return prod(matrices) * (kept + height * width) * problem.item_bytes("y")


def _kernel_of_matrices(
    name: str,
    description: str,
    formats: Sequence[str],
    own: Mapping[str, Param],
    changes: Sequence[Change],
    timed: Sequence[Change],
) -> Kernel:
    """A kernel by which a part of each matrix stays, and another item comes for others."""
    strided: list[Change] = [{"layout": "strided"}, {"layout": "permuted"}]
    return Kernel(
        name=name,
        description=description,
        group="move",
        dims=DIMS,
        bindings=(
            declare_input("x", tuple(formats), DIMS, "matrices"),
            declare_output("y", tuple(formats), DIMS, "what stays of them", same_as="x"),
        ),
        params={**own, "layout": places.LAYOUT},
        forms=Forms(layout=_lay_matrices, empty=DIMS),
        variants=(
            portable(
                "triangles",
                lambda problem, device: _launch_triangle(problem),
                "exact",
                arguments=item_bytes,
            ),
        ),
        inputs=lambda problem: {"x": data.plain_values(problem, "x")},
        check=Check(reference=_reference),
        work=Work(flops=lambda problem: 0, bytes_moved=_moved_bytes),
        cases=(
            *list_cases(name, formats, [(2, 3, 33, 67)], changes),
            *list_cases(
                name, formats, [(2, 3, 17, 19)], [{**changes[-1], **how} for how in strided]
            ),
            *list_cases(name, formats[:1], [(1, 1, 1, 1), (1, 2, 130, 5)], changes[-1:]),
            *list_cases(name, formats[:1], [(1, 2, 0, 5)]),
        ),
        timed=list_cases(name, formats[:2], [(1, 32, 1024, 1024)], timed),
    )


TRI = _kernel_of_matrices(
    "tri",
    "Keeps a triangle of each matrix and sets all else to zero: lower keeps y[h, w] = x[h, w] for"
    " w <= h, upper for w >= h, below and above the same without the diagonal.",
    TYPES,
    {
        "part": Param(
            default="lower",
            choices=tuple(_TRIANGLES),
            description="what stays: lower and upper with the diagonal, below and above without",
        )
    },
    [{}, {"part": "below"}, {"part": "above"}, {"part": "upper"}],
    [{}, {"part": "upper"}],
)

DIAG_MASK_INF = _kernel_of_matrices(
    "diag_mask_inf",
    "Hides scores of positions that a row may not see: y[h, w] = x[h, w] for w <= past + h, else"
    " minus infinity.",
    ("f32", "f16"),
    {"past": Param(default=0, least=0, description="columns that all rows see, but for their own")},
    [{}, {"past": 5}],
    [{}],
)


def _diagonals(
    formats: Iterable[str], shapes: Iterable[tuple[int, ...]], how: str = "contiguous"
) -> Iterator[Case]:
    for fmt in formats:
        yield from rows.list_cases("diag", fmt, {}, _VECTORS, shapes, how)


DIAG = Kernel(
    name="diag",
    description="Makes diagonal matrices of rows: y[h, w] = x[w] where h is w, else 0.",
    group="move",
    dims=_VECTORS,
    bindings=(
        declare_input("x", TYPES, _VECTORS, "diagonals"),
        declare_output("y", TYPES, ("b", "c", "w", "w"), "matrices", same_as="x"),
    ),
    params={"layout": rows.LAYOUT},
    forms=Forms(layout=_lay_vectors, empty=_VECTORS),
    variants=(
        portable(
            "triangles",
            lambda problem, device: _launch_diagonal(problem),
            "exact",
            arguments=item_bytes,
        ),
    ),
    inputs=lambda problem: {"x": data.plain_values(problem, "x")},
    check=Check(
        reference=lambda problem, inputs, sampled: {
            "y": np.where(
                np.eye(problem.shape["w"], dtype=bool),
                inputs["x"][:, :, None, :],
                np.zeros(1, inputs["x"].dtype),
            )
        },
    ),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(
        lambda: (
            *_diagonals(TYPES, [(2, 3, 67)]),
            *_diagonals(TYPES, [(1, 2, 34)], "strided"),
            *_diagonals(("f32",), [(1, 1, 1), (1, 0, 5)]),
        )
    ),
    timed=CaseList(lambda: _diagonals(("f32", "f16"), [(1, 32, 1024)])),
)

TRIANGLES = (TRI, DIAG, DIAG_MASK_INF)
