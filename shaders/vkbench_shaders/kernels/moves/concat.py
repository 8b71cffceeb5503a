"""concat: two arrays joined along a dimension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Push,
    Shapes,
    Work,
)
from vkbench_shaders.kernels.moves.mapping import (
    ANY_TYPES,
    MORE_TYPES,
    THREADS,
    TYPES,
    groups_of,
    item_bytes,
)
from vkbench_shaders.kernels.shared import places
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable


def concat_shape(problem: Problem) -> list[int]:
    axis = str(problem.params["axis"])
    return [_items(problem, dim) + (_items(problem, "n") if dim == axis else 0) for dim in DIMS]


def _items(problem: Problem, dim: str) -> int:
    """Items of a's and b's arrays along a dimension: along rows they may be bytes of blocks."""
    size, along = problem.shape[dim], str(problem.params["axis"]) if dim == "n" else dim
    return problem.format("a").items(size) if along == "w" else size


def concat_layout(problem: Problem, binding: str) -> Layout:
    shape = concat_shape(problem)
    if binding == "y":
        return Layout.contiguous(shape)
    axis = str(problem.params["axis"])
    shape[DIMS.index(axis)] = _items(problem, "n" if binding == "b" else axis)
    return places.lying(problem, binding, shape)


def concat(problem: Problem, device: DeviceFacts) -> Launch:
    axis = DIMS.index(str(problem.params["axis"]))
    y, a, b = (problem.layout(name) for name in "yab")
    inner = prod(y.shape[axis + 1 :])
    if all(places.is_flat(layout) for layout in (a, b)):  # rows of a and of b by turns
        y, a, b = (
            Layout.contiguous((1, 1, prod(n.shape[:axis]), n.shape[axis] * inner))
            for n in (y, a, b)
        )
        axis = 3
    groups = groups_of(problem)
    push: Push = {
        "sizes": places.sizes(y.shape),
        "a": places.place(a),
        "b": places.place(b),
        "size": a.shape[axis],
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS, "AXIS": axis})


def concat_sizes(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """The dimensions of a, and of b the one in which they differ: w where they do not."""
    for name in "ab":
        if len(shapes[name]) != 4:
            raise UsageError(f"{name} has four dimensions (b, c, h, w), got {len(shapes[name])}")
    differ = [i for i in range(4) if shapes["a"][i] != shapes["b"][i]]
    return {
        **dict(zip(DIMS, shapes["a"], strict=True)),
        "n": shapes["b"][differ[-1] if differ else 3],
    }


def _concats(
    formats: Iterable[str],
    shapes: Iterable[tuple[int, ...]],
    how: str = "contiguous",
    axes: Iterable[str] = DIMS,
) -> Iterator[Case]:
    for axis in axes:
        given = {"axis": axis, "layout": how}
        params = {name: value for name, value in given.items() if value not in ("w", "contiguous")}
        for fmt in formats:
            for sizes in shapes:
                shape: dict[str, int] = dict(zip("bchwn", sizes, strict=True))
                yield Case(kernel="concat", format=fmt, shape=shape, params=params)


CONCAT = Kernel(
    name="concat",
    description="Joins two arrays along a dimension: b behind a.",
    group="move",
    dims=(*DIMS, "n"),
    bindings=(
        declare_input("a", ANY_TYPES, DIMS, "any items"),
        declare_input("b", ANY_TYPES, DIMS, "others, n along the axis", same_as="a"),
        declare_output("y", ANY_TYPES, DIMS, "all of them", same_as="a"),
    ),
    params={
        "axis": Param(default="w", choices=DIMS, description="the dimension they are joined along"),
        "layout": places.LAYOUT,
    },
    forms=Forms(layout=concat_layout, infer=concat_sizes, empty=("n",)),
    variants=(portable("concat", concat, "exact", arguments=item_bytes),),
    inputs=lambda problem: {name: data.plain_values(problem, name) for name in "ab"},
    check=Check(
        reference=lambda problem, inputs, rows: {
            "y": np.concatenate([inputs["a"], inputs["b"]], DIMS.index(str(problem.params["axis"])))
        },
    ),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(
        lambda: (
            *_concats(("f32",), [(2, 3, 5, 7, 0)]),
            *_concats(TYPES, [(1, 1, 1, 1, 1), (2, 3, 5, 67, 4), (1, 3, 17, 130, 9)]),
            *_concats(TYPES, [(2, 3, 5, 19, 7)], "strided"),
            *_concats(TYPES, [(2, 3, 5, 19, 7)], "permuted"),
            *_concats(MORE_TYPES, [(2, 3, 5, 19, 7)], axes="w"),
        )
    ),
    timed=CaseList(
        lambda: (
            *_concats(("f32", "f16"), [(4, 32, 128, 1024, 64)], axes="cw"),
            *_concats(("f32",), [(1, 1, 4096, 4096, 3)], axes="hw"),
        )
    ),
)
