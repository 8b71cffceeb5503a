"""Items by their numbers along a dimension: what kernels of that have in common.

Arrays have three dimensions, which stand for any: o counts all of them before the one that is
indexed, k all behind it. Numbers that an array does not have read zeros and set nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Problem,
    Push,
    Variant,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.moves.mapping import THREADS
from vkbench_shaders.kernels.shared import places
from vkbench_shaders.kernels.shared.rows import LAYOUT, layout, list_cases

DIMS = ("o", "m", "n", "k")
IDS = ("i32", "i64", "u32", "u8")
ABOUT_IDS = "numbers, 0 to m - 1; others count for nothing"
SHARE = THREADS * 4  # items that a workgroup goes through
_ODD = (-1, 1 << 20, 1 << 31, (1 << 32) + 1)  # numbers that no case has, but for one that wraps
_ODD_EVERY = 37


def bindings(
    x: tuple[str, ...], ids: tuple[str, ...], y: tuple[str, ...], types: tuple[str, ...]
) -> tuple[Binding, ...]:
    """Items, their numbers, and where they come: in that order, or y first if it is changed."""
    changed = "m" in y
    first, last = ("y", "x") if changed else ("x", "y")
    by_name = {
        "x": declare_input("x", types, x, "items", same_as=changed * "y"),
        "ids": declare_input("ids", IDS, ids, ABOUT_IDS),
        "y": Binding(
            name="y",
            access="inout" if changed else "out",
            types=types,
            dims=y,
            same_as="" if changed else first,
            description="the array that changes" if changed else "items, or zeros",
        ),
    }
    names = (first, last, "ids") if changed else (first, "ids", last)
    return tuple(by_name[name] for name in names)


def lying(problem: Problem, binding: str) -> Layout:
    """Where an array lies, by the parameter `layout`; outputs have no gaps."""
    if problem.kernel.binding(binding).access == "out":
        return Layout.contiguous(problem.full_shape(binding))
    return layout(problem, binding)


def ids_of(problem: Problem) -> Array:
    """Numbers below m, and a few that are not."""
    ids = data.indices(problem, "ids", problem.shape["m"]).reshape(-1)
    odd = np.array(_ODD, "i8").astype(ids.dtype)
    places = ids[5::_ODD_EVERY]
    places[:] = np.resize(odd, places.size)
    return ids.reshape(problem.array_shape("ids"))


def indexed_inputs(problem: Problem) -> dict[str, Array]:
    """Any items, and numbers."""
    return {
        binding.name: ids_of(problem)
        if binding.name == "ids"
        else data.plain_values(problem, binding.name)
        for binding in problem.kernel.bindings
        if binding.is_input
    }


def exist(problem: Problem, ids: Array) -> Array:
    return np.asarray((ids >= 0) & (ids < problem.shape["m"]))


def indexed_arrays(problem: Problem, groups_x: int, table: str = "y", along: str = "n") -> Push:
    """A shader's Indexed, named `arrays`, for a launch that goes along n, or along m."""
    o, m, n, k = problem.shape.values()
    ids = problem.layout("ids")
    if len(ids.shape) == 1:  # the same for all o and k
        ids = Layout(shape=(o, n, k), strides=(0, 1, 0), offset=ids.offset, storage=ids.storage)
    arrays: Push = {
        "sizes": places.sizes((1, o, problem.shape[along], k)),
        "x": places.place(problem.layout("x")),
        "ids": places.place(ids),
        "y": places.place(problem.layout(table)),
        "size": m,
        "id_bytes": problem.item_bytes("ids"),
        "groups_x": groups_x,
    }
    return {"arrays": arrays}


def item_bytes(types: Mapping[str, str]) -> tuple[str, ...]:
    """The generic argument of what only moves items."""
    return (str(format_named(types["x"]).bytes),)


def launch_over(problem: Problem, items: int, entry: str = "") -> Launch:
    """A launch over so many items."""
    groups = grid(-(-items // SHARE))
    push, constants = indexed_arrays(problem, groups[0]), {"THREADS": THREADS}
    return Launch(groups=groups, push=push, constants=constants, entry=entry)


def refuse_large_scratch(
    scratch: Callable[[Problem, DeviceFacts], tuple[int, ...]],
) -> Callable[[Problem, DeviceFacts], str | None]:
    """Refuses what is too large, scratch included."""

    def refuses(problem: Problem, device: DeviceFacts) -> str | None:
        most = device.limits.get("max_storage_range")
        needed = max(scratch(problem, device))
        if most is not None and needed > most:
            return f"scratch has {needed} bytes, the device binds {most} at most"
        return too_large(problem, device)

    return refuses


def bytes_touched(problem: Problem) -> int:
    """Bytes of the numbers, and of items twice: where they are and where they come."""
    sizes = problem.array_shape("x" if "n" in problem.kernel.binding("x").dims else "y")
    ids = prod(problem.array_shape("ids")) * problem.item_bytes("ids")
    return ids + 2 * prod(sizes) * problem.item_bytes("x")


def kernel(
    name: str,
    description: str,
    bindings: tuple[Binding, ...],
    variants: tuple[Variant, ...],
    reference: Callable[[Problem, Arrays, Array | None], dict[str, Array]],
    cases: Iterable[Case],
    timed: Iterable[Case],
    bytes_moved: Callable[[Problem], int] = bytes_touched,
) -> Kernel:
    """What all of them have in common."""
    return Kernel(
        name=name,
        description=description,
        group="index",
        dims=DIMS,
        bindings=bindings,
        params={"layout": LAYOUT},
        forms=Forms(layout=lying, empty=("n",)),
        variants=variants,
        inputs=indexed_inputs,
        check=Check(reference=reference),
        work=Work(flops=lambda problem: 0, bytes_moved=bytes_moved),
        cases=CaseList(lambda: cases),
        timed=CaseList(lambda: timed),
    )


TABLE, TAKEN = ("o", "m", "k"), ("o", "n", "k")


def cases_of(
    name: str,
    formats: Iterable[str],
    shapes: Iterable[tuple[int, ...]],
    more_formats: Iterable[str] = (),
    more_shapes: Iterable[tuple[int, ...]] = ((2, 5, 7, 3),),
) -> Iterator[Case]:
    """Cases with all formats of numbers and both layouts of rows; of more formats few cases."""
    yield from list_cases(name, "f32", {}, DIMS, [(2, 3, 0, 5)])
    for fmt in formats:
        yield from list_cases(name, fmt, {}, DIMS, shapes)
        for ids in IDS[1:]:
            yield from list_cases(name, fmt, {"ids": ids}, DIMS, [(2, 5, 70, 3)])
        yield from list_cases(name, fmt, {"ids": "u8"}, DIMS, [(3, 255, 301, 1)], "strided")
        yield from list_cases(name, fmt, {}, DIMS, [(2, 5, 70, 33)], "strided")
    for fmt in more_formats:
        yield from list_cases(name, fmt, {}, DIMS, more_shapes)
        for ids in IDS[1:]:
            yield from list_cases(name, fmt, {"ids": ids}, DIMS, [(2, 5, 7, 3)])


def timed_of(
    name: str, formats: Iterable[str], shapes: Iterable[tuple[int, ...]]
) -> Iterator[Case]:
    for fmt in formats:
        yield from list_cases(name, fmt, {}, DIMS, shapes)


SMALL = ((1, 1, 1, 1), (2, 5, 7, 3), (1, 101, 300, 1), (3, 17, 40, 33), (1, 9, 11, 1030))
