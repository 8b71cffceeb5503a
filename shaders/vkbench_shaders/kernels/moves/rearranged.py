"""Moves: arrays joined, repeated, padded, rolled, their items' bits untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from vkbench.case import Case
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
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
    ANY_TYPES,
    AROUND,
    MIRRORED,
    MORE_TYPES,
    OUTSIDE,
    TYPES,
    Change,
    Sizes,
    item_bytes,
    launch_map,
    list_cases,
)
from vkbench_shaders.kernels.shared import places
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable


def numbers(problem: Problem, name: str) -> tuple[int, int, int, int]:
    """The parameters NAME_b, NAME_c, NAME_h and NAME_w."""
    b, c, h, w = (int(problem.params[f"{name}_{dim}"]) for dim in DIMS)
    return b, c, h, w


def params(name: str, default: int, description: str, least: int | None = None) -> dict[str, Param]:
    return {
        f"{name}_{dim}": Param(default=default, least=least, description=f"{description} {dim}")
        for dim in DIMS
    }


def layout(
    shape: Callable[[Problem], Sequence[int]],
) -> Callable[[Problem, str], Layout]:
    """y has a shape of its own and no gaps; x lies by the parameter `layout`."""

    def lay_out(problem: Problem, binding: str) -> Layout:
        return (
            Layout.contiguous(shape(problem)) if binding == "y" else places.layout(problem, binding)
        )

    return lay_out


def mover(
    name: str,
    description: str,
    shape: Callable[[Problem], Sequence[int]],
    launch: Callable[[Problem], Launch],
    moved: Callable[[Problem, Array], Array],
    own: Mapping[str, Param],
    cases: tuple[Case, ...],
    timed: tuple[Case, ...],
    empty: tuple[str, ...] = (),
) -> Kernel:
    """A kernel that makes y of x by a map of indices."""

    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        return {"y": np.ascontiguousarray(moved(problem, inputs["x"]))}

    return Kernel(
        name=name,
        description=description,
        group="move",
        dims=DIMS,
        bindings=(
            declare_input("x", ANY_TYPES, DIMS, "any items"),
            declare_output("y", ANY_TYPES, DIMS, "items of x in their new places", same_as="x"),
        ),
        params={**own, "layout": places.LAYOUT},
        forms=Forms(layout=layout(shape), empty=empty),
        variants=(
            portable(
                "mapped", lambda problem, device: launch(problem), "exact", arguments=item_bytes
            ),
        ),
        inputs=lambda problem: {"x": data.plain_values(problem, "x")},
        check=Check(reference=reference),
        work=Work(flops=lambda problem: 0),
        cases=cases,
        timed=timed,
    )


_LYING: tuple[Change, ...] = ({"layout": "strided"}, {"layout": "permuted"})
_LARGE: Sizes = (1, 1, 4096, 4096)


def _with(change: Change, others: Iterable[Change] = _LYING) -> list[Change]:
    return [{**change, **other} for other in others]


def repeat_shape(problem: Problem) -> Sequence[int]:
    times = numbers(problem, "times")
    return [n * problem.shape[dim] for n, dim in zip(times, DIMS, strict=True)]


_REPEATED: Change = {"times_b": 2, "times_c": 3, "times_h": 2, "times_w": 3}

REPEAT = mover(
    "repeat",
    "Repeats an array along each dimension: y[i] = x[i mod size of x].",
    repeat_shape,
    lambda problem: launch_map(problem, AROUND),
    lambda problem, x: np.tile(x, numbers(problem, "times")),
    params("times", 1, "how often x is there along", least=1),
    (
        *list_cases("repeat", TYPES, [(1, 1, 1, 1), (2, 1, 3, 7), (1, 2, 5, 130)], [_REPEATED]),
        *list_cases("repeat", TYPES, [(2, 3, 5, 1)], [{"times_w": 67}]),
        *list_cases("repeat", TYPES, [(1, 3, 5, 67)], [{"times_b": 5, "times_h": 7}]),
        *list_cases("repeat", TYPES, [(2, 3, 5, 17)], _with({"times_c": 2, "times_w": 2})),
        *list_cases("repeat", MORE_TYPES, [(2, 1, 3, 7)], [_REPEATED]),
        *list_cases("repeat", ("f32",), [(1, 1, 1, 4)], [{"times_w": 5003}]),
        *list_cases("repeat", ("f32",), [(1, 0, 1, 4)], [{"times_w": 3}]),
    ),
    (
        *list_cases("repeat", ("f32", "f16"), [(1, 1, 1, 4096)], [{"times_h": 8192}]),
        *list_cases("repeat", ("f32", "f16"), [(1, 1, 8192, 1)], [{"times_w": 4096}]),
        *list_cases("repeat", ("f32", "f16"), [(1, 8, 1024, 128)], [{"times_c": 8}]),
    ),
    empty=DIMS,
)


def pad_shape(problem: Problem) -> Sequence[int]:
    before, after = numbers(problem, "before"), numbers(problem, "after")
    others = any(before[:3]) or any(after[:3])
    mirrored = problem.params["mode"] == "reflect"
    if mirrored and (others or max(before[3], after[3]) >= problem.shape["w"]):
        raise UsageError("pad reflects along w alone, and less than w items")
    return [problem.shape[dim] + before[i] + after[i] for i, dim in enumerate(DIMS)]


_PADS = {"zeros": OUTSIDE, "circular": AROUND, "reflect": MIRRORED}
_Mode = Literal["constant", "wrap", "reflect"]
_NUMPY: Mapping[str, _Mode] = {"zeros": "constant", "circular": "wrap", "reflect": "reflect"}


def pad(problem: Problem) -> Launch:
    before = numbers(problem, "before")
    return launch_map(problem, _PADS[str(problem.params["mode"])], [-n for n in before])


def pad_array(problem: Problem, x: Array) -> Array:
    widths = list(zip(numbers(problem, "before"), numbers(problem, "after"), strict=True))
    return np.pad(x, widths, _NUMPY[str(problem.params["mode"])])


_AROUND = [f"{side}_{dim}" for side in ("after", "before") for dim in DIMS]
_ALL_ROUND: Change = dict(zip(_AROUND, (1, 3, 2, 5, 1, 2, 1, 3), strict=True))
_SIDES: Change = {"before_w": 2, "after_w": 4}
_MIRROR: Change = {"mode": "reflect", **_SIDES}

PAD = mover(
    "pad",
    "Puts an array between zeros, copies of itself (circular), or itself mirrored at both ends of"
    " w (reflect, which pads w alone, by less than its size).",
    pad_shape,
    pad,
    pad_array,
    {
        **params("before", 0, "items in front of", least=0),
        **params("after", 0, "items behind", least=0),
        "mode": Param(default="zeros", choices=tuple(_PADS), description="what is put around x"),
    },
    (
        *list_cases("pad", TYPES, [(1, 1, 1, 1), (2, 1, 3, 7), (1, 2, 5, 130)], [_ALL_ROUND]),
        *list_cases("pad", TYPES, [(1, 1, 3, 67)], [{"mode": "circular", **_ALL_ROUND}, _MIRROR]),
        *list_cases("pad", TYPES, [(2, 3, 5, 67)], _with(_ALL_ROUND)),
        *list_cases("pad", MORE_TYPES, [(2, 1, 3, 7)], [_ALL_ROUND]),
        *list_cases("pad", ("f32",), [(1, 3, 64, 67)], [{"after_h": 9}, {"before_w": 301}]),
        *list_cases("pad", ("f32",), [(1, 1, 80, 512)], [{**_MIRROR, "before_w": 200}]),
    ),
    (
        *list_cases("pad", ("f32", "f16"), [_LARGE], [{"after_h": 64, "after_w": 64}]),
        *list_cases("pad", ("f32",), [(1, 3, 512, 512)], [{"after_h": 16, "after_w": 16}]),
        *list_cases("pad", ("f32",), [_LARGE], [{"mode": "circular", **_SIDES}]),
        *list_cases("pad", ("f32",), [(1, 1, 384, 3000)], [_MIRROR]),
    ),
)


def roll(problem: Problem) -> Launch:
    return launch_map(problem, AROUND, [-n for n in numbers(problem, "shift")])


_SHIFTED: Change = {"shift_b": 1, "shift_c": -1, "shift_h": 2, "shift_w": 5}

ROLL = mover(
    "roll",
    "Shifts an array along each dimension, around its ends: y[i + shift] = x[i].",
    lambda problem: [problem.shape[dim] for dim in DIMS],
    roll,
    lambda problem, x: np.roll(x, numbers(problem, "shift"), (0, 1, 2, 3)),
    params("shift", 0, "places forward along"),
    (
        *list_cases("roll", TYPES, [(1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 5, 130)], [_SHIFTED]),
        *list_cases("roll", TYPES, [(2, 3, 5, 67)], _with(_SHIFTED)),
        *list_cases("roll", MORE_TYPES, [(2, 3, 5, 7)], [_SHIFTED]),
        *list_cases("roll", ("f32",), [(1, 3, 64, 67)], [{"shift_h": -9}, {"shift_w": 1000}]),
        *list_cases("roll", ("f32",), [(1, 3, 0, 67)], [{"shift_h": 1}]),
    ),
    (
        *list_cases("roll", ("f32", "f16"), [_LARGE], [{"shift_h": 7}, {"shift_w": 3}]),
        *list_cases("roll", ("f32",), [_LARGE], [{"shift_w": 4}]),
    ),
    empty=DIMS,
)

MOVES = (REPEAT, PAD, ROLL)
