"""copy_blocks, concat_blocks: rows of blocks, moved whole and byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import QUANTISED, format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Check,
    Forms,
    Kernel,
    Layout,
    Param,
    Problem,
    Shapes,
    Work,
    too_large,
)
from vkbench_shaders.kernels.moves import concat
from vkbench_shaders.kernels.moves.copies import launch_copy
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.shared.rows import LAYOUT, gaps

_CACHES = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


def _bytes(types: Mapping[str, str]) -> tuple[str, ...]:
    """The generic argument: blocks of any size are moved as bytes."""
    return ("1",)


def _numbers(shapes: Shapes, types: Mapping[str, str], name: str) -> Shapes:
    """Shapes whose rows are counted in numbers, not in bytes of blocks."""
    fmt = format_named(types[name])
    return {
        array: (*shape[:-1], shape[-1] // fmt.bytes * fmt.elements)
        for array, shape in shapes.items()
    }


def _infer_sizes(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes of what is copied, from the shape of x."""
    shape = _numbers(shapes, types, "x")["x"]
    if len(shape) != len(DIMS):
        raise UsageError(f"x has four dimensions (b, c, h, w), got {len(shape)}")
    return dict(zip(DIMS, shape, strict=True))


def _refuse_cut_blocks(problem: Problem, device: DeviceFacts) -> str | None:
    """Why arrays cannot be joined along their rows, or None."""
    count, fmt = problem.shape["n"], problem.format("a")
    if problem.params["axis"] == "w" and count % fmt.elements:
        return f"n={count} is no multiple of {fmt.elements}, {fmt.name}'s block"
    return too_large(problem, device)


def _lay_rows(problem: Problem, binding: str) -> Layout:
    """Where rows of x lie: with gaps, or those of different channels beside each other."""
    shape, how = problem.full_shape(binding), problem.params["layout"]
    if binding == "x" and how == "permuted":
        return Layout.in_order(shape, [DIMS.index(dim) for dim in "bhcw"])
    if binding == "x" and how == "strided":
        return Layout.with_gaps(shape, *gaps(problem, binding))
    return Layout.contiguous(shape)


def _copies() -> Iterator[Case]:
    for number, fmt in enumerate(QUANTISED):
        block = format_named(fmt).elements
        yield parse(f"copy_blocks/{fmt}/b1_c1_h{number % 2 * 7 + 1}_w{block}")
        how = ("strided", "permuted")[number % 2]
        yield parse(f"copy_blocks/{fmt}/b2_c3_h5_w{3 * block}/layout={how}")


def _joins() -> Iterator[Case]:
    for number, fmt in enumerate(QUANTISED):
        block = format_named(fmt).elements
        yield _join(fmt, (2, 3, 5, 3 * block, 2 * block), "w")
        how = ("contiguous", "strided")[number % 2]
        yield _join(fmt, (2, 3, 5, 2 * block, 4), "bch"[number % 3], how)


def _join(fmt: str, sizes: tuple[int, ...], axis: str, how: str = "contiguous") -> Case:
    given = {"axis": axis, "layout": how}
    params = {name: value for name, value in given.items() if value not in ("w", "contiguous")}
    shape: dict[str, int] = dict(zip("bchwn", sizes, strict=True))
    return Case(kernel="concat_blocks", format=fmt, shape=shape, params=params)


COPY_BLOCKS = Kernel(
    name="copy_blocks",
    description="Copies rows of blocks that lie in any order: y = x, byte for byte.",
    group="copy",
    dims=DIMS,
    bindings=(
        declare_input("x", QUANTISED, DIMS, "rows of blocks"),
        declare_output("y", QUANTISED, DIMS, "the same, row after row", same_as="x", exact=True),
    ),
    params={
        "layout": Param(
            default="contiguous",
            choices=("contiguous", "strided", "permuted"),
            description="how rows of x lie: without gaps, with gaps, by their place in a channel",
        )
    },
    forms=Forms(
        layout=_lay_rows,
        infer=_infer_sizes,
        empty=("b", "c", "h"),
    ),
    variants=(
        portable(
            "mapped",
            lambda problem, device: launch_copy(problem, problem.layout("x")),
            "exact",
            arguments=_bytes,
        ),
    ),
    inputs=lambda problem: {"x": data.weights(problem, "x")},
    check=Check(reference=lambda problem, inputs, rows: {"y": inputs["x"]}),
    work=Work(flops=lambda problem: 0),
    cases=CaseList(_copies),
    timed=CaseList(
        lambda: (parse(f"copy_blocks/{fmt}/b1_c8_h4096_w128/layout=permuted") for fmt in _CACHES)
    ),
)

CONCAT_BLOCKS = replace(
    concat.CONCAT,
    name="concat_blocks",
    description="Joins two arrays of blocks along a dimension: b behind a, byte for byte.",
    bindings=(
        declare_input("a", QUANTISED, DIMS, "rows of blocks"),
        declare_input("b", QUANTISED, DIMS, "others, n along the axis", same_as="a"),
        declare_output("y", QUANTISED, DIMS, "all of them", same_as="a", exact=True),
    ),
    forms=Forms(
        layout=concat.concat_layout,
        infer=lambda shapes, types: concat.concat_sizes(_numbers(shapes, types, "a"), types),
        empty=("n",),
    ),
    variants=(
        portable("concat", concat.concat, "exact", arguments=_bytes, refuses=_refuse_cut_blocks),
    ),
    params={**concat.CONCAT.params, "layout": LAYOUT},
    inputs=lambda problem: {name: data.weights(problem, name) for name in "ab"},
    cases=CaseList(_joins),
    timed=CaseList(lambda: (_join(fmt, (1, 8, 4096, 128, 64), "h") for fmt in ("q8_0", "q4_0"))),
)

BLOCKS = (COPY_BLOCKS, CONCAT_BLOCKS)
