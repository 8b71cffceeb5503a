"""A part of an array that another one is put into or added to: set and acc.

See slang/moves/parts.slang and slang/moves/part_sums.slang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
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
    Push,
    Variant,
    Work,
    grid,
)
from vkbench_shaders.kernels.moves.mapping import ANY_TYPES, THREADS, groups_of, item_bytes
from vkbench_shaders.kernels.shared import places
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable

_PART: Final = ("p", "q", "r", "v")  # dimensions of x: b, c, h and w of the part
_SLOTS: Final = 4  # of a thread of part_sums.slang
_PLACE: Final = {
    f"at_{dim}": Param(default=0, least=0, description=f"where the part begins along {dim}")
    for dim in DIMS
}


def _first_of(problem: Problem) -> tuple[int, ...]:
    """The indices of the part's first item; UsageError if it reaches beyond the array."""
    first = tuple(int(problem.params[f"at_{dim}"]) for dim in DIMS)
    for dim, start, part in zip(DIMS, first, _PART, strict=True):
        if start + problem.shape[part] > problem.shape[dim]:
            raise UsageError(
                f"{problem.kernel.name} has a part of {part}={problem.shape[part]} from"
                f" at_{dim}={start} on, which {dim}={problem.shape[dim]} has no room for"
            )
    return first


def _lay_out(problem: Problem, binding: str) -> Layout:
    """y has no gaps; base and x lie by the parameter `layout`."""
    _first_of(problem)
    if binding == "y":
        return Layout.contiguous(problem.full_shape(binding))
    return places.layout(problem, binding)


def _launch_set(problem: Problem, device: DeviceFacts) -> Launch:
    groups = groups_of(problem)
    push: Push = {
        "sizes": places.sizes(problem.array_shape("y")),
        "base": places.place(problem.layout("base")),
        "x": places.place(problem.layout("x")),
        "first": _first_of(problem),
        "size": problem.array_shape("x"),
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def _launch_acc(problem: Problem, device: DeviceFacts) -> Launch:
    base, x = problem.layout("base"), problem.layout("x")
    first, shape, part = _first_of(problem), base.shape, x.shape
    is_wide = all(
        layout.strides[3] == 1 and not any(n % 4 for n in (layout.offset, *layout.strides[:3]))
        for layout in (base, x)
    ) and not any(n % 4 for n in (shape[3], part[3], first[3]))
    slot_items = 4 if is_wide else 1
    groups = grid(-(-prod(shape) // (THREADS * _SLOTS * slot_items)))
    push: Push = {
        "sizes": places.sizes((*shape[:3], shape[3] // slot_items)),
        "base": _count_slots(base, slot_items),
        "x": _count_slots(x, slot_items),
        "first": (*first[:3], first[3] // slot_items),
        "size": (*part[:3], part[3] // slot_items),
        "groups_x": groups[0],
    }
    constants = {"THREADS": THREADS, "WIDE": int(is_wide)}
    return Launch(groups=groups, push=push, constants=constants)


def _count_slots(layout: Layout, slot_items: int) -> dict[str, int]:
    """A shader's Place, counted in slots of so many items that lie side by side."""
    place = {name: number // slot_items for name, number in places.place(layout).items()}
    return place if slot_items == 1 else {**place, "w": 1}


def _put(problem: Problem, inputs: Arrays, dtype: str = "") -> tuple[Array, Array]:
    """A copy of base in a type, and its part as a view."""
    y = inputs["base"].astype(dtype or inputs["base"].dtype)
    sizes = zip(_first_of(problem), inputs["x"].shape, strict=True)
    return y, y[tuple(slice(start, start + size) for start, size in sizes)]


def _set_part(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y, part = _put(problem, inputs)
    part[...] = inputs["x"]
    return {"y": y}


def _add_part(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y, part = _put(problem, inputs, "f8")
    part += inputs["x"]
    return {"y": y}


def _count_moved(problem: Problem, *, base_is_read_whole: bool) -> int:
    """Bytes that have to be moved; the part of base that x replaces is not read."""
    whole, part = (prod(problem.array_shape(name)) for name in ("y", "x"))
    read = whole if base_is_read_whole else whole - part
    return (read + part + whole) * problem.item_bytes("y")


_MIDDLE: Final = {"at_b": 1, "at_c": 1, "at_h": 2, "at_w": 5}
_SHAPE: Final = (2, 3, 9, 40, 1, 2, 5, 19)


def _list_cases(
    name: str,
    formats: Iterable[str],
    shapes: Iterable[Sequence[int]],
    params: Mapping[str, Value],
) -> Iterator[Case]:
    for fmt in formats:
        for sizes in shapes:
            shape = dict(zip((*DIMS, *_PART), sizes, strict=True))
            yield Case(kernel=name, format=fmt, shape=shape, params=params)


def _list_checked_cases(name: str, formats: Sequence[str]) -> Iterator[Case]:
    """Parts at the beginning, in the middle, of whole vec4s, and all of an array."""
    yield from _list_cases(name, formats, [_SHAPE], _MIDDLE)
    yield from _list_cases(name, formats, [_SHAPE], {**_MIDDLE, "layout": "strided"})
    yield from _list_cases(name, formats[:1], [_SHAPE], {**_MIDDLE, "layout": "permuted"})
    yield from _list_cases(name, formats[:1], [(1, 1, 1, 1) * 2, (1, 2, 3, 67) * 2], {})
    yield from _list_cases(name, formats[:1], [(1, 2, 33, 64, 1, 1, 7, 36)], {"at_w": 8})


def _kernel(
    name: str,
    description: str,
    formats: Sequence[str],
    variant: Variant,
    reference: Callable[[Problem, Arrays, Array | None], dict[str, Array]],
    work: Work,
    inputs: Callable[[Problem], dict[str, Array]],
) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group="move",
        dims=(*DIMS, *_PART),
        bindings=(
            declare_input("base", tuple(formats), DIMS, "the array that has the part"),
            declare_input("x", tuple(formats), _PART, "what goes there", same_as="base"),
            declare_output("y", tuple(formats), DIMS, "the array with it", same_as="base"),
        ),
        params={**_PLACE, "layout": places.LAYOUT},
        forms=Forms(layout=_lay_out, whole=True),
        variants=(variant,),
        inputs=inputs,
        check=Check(reference=reference),
        work=work,
        cases=CaseList(lambda: _list_checked_cases(name, formats)),
        timed=CaseList(
            lambda: _list_cases(
                name, formats[:2], [(1, 1, 4096, 4096, 1, 1, 2048, 2048)], {"at_w": 1024}
            )
        ),
    )


SET = _kernel(
    "set",
    "Puts an array into a part of another one: y = base, and y[at + i] = x[i].",
    ANY_TYPES,
    portable("parts", _launch_set, "exact", arguments=item_bytes),
    _set_part,
    Work(
        flops=lambda problem: 0,
        bytes_moved=lambda problem: _count_moved(problem, base_is_read_whole=False),
    ),
    lambda problem: {name: data.plain_values(problem, name) for name in ("base", "x")},
)

ACC = _kernel(
    "acc",
    "Adds an array to a part of another one: y = base, and y[at + i] = base[at + i] + x[i].",
    ("f32",),
    portable("part_sums", _launch_acc, "f32_each"),
    _add_part,
    Work(
        flops=lambda problem: prod(problem.array_shape("x")),
        bytes_moved=lambda problem: _count_moved(problem, base_is_read_whole=True),
    ),
    lambda problem: {name: data.uniform(problem, name, -4, 4) for name in ("base", "x")},
)

PARTS = (SET, ACC)
