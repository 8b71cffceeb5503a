"""Arrays of one value, or of a sequence of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Param,
    Problem,
    Work,
    grid,
)
from vkbench_shaders.kernels.moves.mapping import SHARE, THREADS, Change
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

_FILLED = ("f32", "f16", "bf16", "i32", "i64", "u8")


def fill(problem: Problem, device: DeviceFacts) -> Launch:
    size = problem.shape["n"] * problem.item_bytes("y")
    groups = grid(-(-size // SHARE))
    low, high = np.frombuffer(np.resize(value_of(problem), 8).tobytes()[:8], "<u4").tolist()
    return Launch(
        groups=groups,
        push={"low": low, "high": high, "bytes": size, "groups_x": groups[0]},
        constants={"THREADS": THREADS},
    )


def value_of(problem: Problem) -> Array:
    """The one item that all of y are."""
    value = np.array([float(problem.params.get("value", 0.0))])
    fmt = problem.format("y")
    if fmt.name[0] in "iu":
        return value.astype(fmt.dtype)
    return quants.quantise(fmt.name, value)


def filler(name: str, description: str, params: Mapping[str, Param], change: Change) -> Kernel:
    """A kernel that sets all of y to one value."""

    def cases(formats: Iterable[str], shapes: Iterable[int]) -> tuple[Case, ...]:
        return tuple(
            Case(kernel=name, format=fmt, shape={"n": n}, params=change)
            for fmt in formats
            for n in shapes
        )

    def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        return {"y": np.repeat(value_of(problem), problem.shape["n"])}

    return Kernel(
        name=name,
        description=description,
        group="copy",
        dims=("n",),
        bindings=(declare_output("y", _FILLED, ("n",), "the array"),),
        params=params,
        variants=(portable("fill", fill, "exact"),),
        inputs=lambda problem: {},
        check=Check(reference=reference),
        work=Work(flops=lambda problem: 0),
        forms=Forms(empty=("n",)),
        cases=CaseList(lambda: cases(_FILLED, (0, 1, 2, 3, 5, 31, 127, 4097, 65537))),
        timed=CaseList(lambda: cases(("f32", "f16"), (1 << 24, 1 << 27))),
    )


ZEROS = filler("zeros", "Sets all items to zero: y = 0.", {}, {})
FILL = filler(
    "fill",
    "Sets all items to one value: y = value.",
    {"value": Param(default=1.0, description="the value; its whole part in an integer format")},
    {"value": -3.25},
)

_SEQUENCES = {"f32": "single", "f16": "narrowed", "i32": "integer"}


def arange(problem: Problem, device: DeviceFacts) -> Launch:
    kind = "<i4" if problem.types["y"] == "i32" else "<f4"
    numbers = np.array([float(problem.params[name]) for name in ("start", "step")]).astype(kind)
    start, step = numbers.view("<u4").tolist()
    groups = grid(-(-problem.shape["n"] * problem.item_bytes("y") // SHARE))
    return Launch(
        groups=groups,
        push={"start": start, "step": step, "count": problem.shape["n"], "groups_x": groups[0]},
        constants={"THREADS": THREADS},
    )


def sequence(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """The sequence in single precision, as the definition says."""
    start, step = (float(problem.params[name]) for name in ("start", "step"))
    numbers = np.arange(problem.shape["n"])
    if problem.types["y"] == "i32":
        return {"y": (int(start) + numbers * int(step)).astype(np.int32)}
    values = np.float32(start) + numbers.astype(np.float32) * np.float32(step)
    return {"y": values if problem.types["y"] == "f32" else values.astype(np.float64)}


def _sequences(formats: Iterable[str], shapes: Iterable[int], change: Change) -> Iterator[Case]:
    for fmt in formats:
        for n in shapes:
            yield Case(kernel="arange", format=fmt, shape={"n": n}, params=change)


ARANGE = Kernel(
    name="arange",
    description="Numbers a step apart, y[i] = start + i * step: i, the product and the sum are each"
    " rounded to f32.",
    group="copy",
    dims=("n",),
    bindings=(declare_output("y", tuple(_SEQUENCES), ("n",), "the numbers"),),
    params={
        "start": Param(default=0.0, description="the first one, as f32; whole for i32"),
        "step": Param(default=1.0, description="from one to the next, as f32; whole for i32"),
    },
    variants=(
        portable("arange", arange, "exact", arguments=lambda types: (_SEQUENCES[types["y"]],)),
    ),
    inputs=lambda problem: {},
    check=Check(reference=sequence),
    work=Work(flops=lambda problem: 2 * problem.shape["n"]),
    forms=Forms(empty=("n",)),
    cases=CaseList(
        lambda: (
            *_sequences(_SEQUENCES, (0, 1, 3, 513, 40001), {}),
            *_sequences(("f32", "f16"), (10, 65537), {"start": -1000.1, "step": 0.03}),
            *_sequences(("f32",), (1 << 20,), {"start": 3.7, "step": -1.1}),
            *_sequences(("f32",), ((1 << 24) + 4099,), {"start": -9.5, "step": 1.5}),
            *_sequences(("i32",), (5000,), {"start": 5.0, "step": -700001.0}),
        )
    ),
    timed=CaseList(lambda: _sequences(("f32", "f16"), (1 << 20, 1 << 26), {})),
)

FILLS = (ZEROS, FILL, ARANGE)
