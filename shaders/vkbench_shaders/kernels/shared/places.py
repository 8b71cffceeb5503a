"""Layouts of arrays b c h w in memory, and the push constants by which shaders find an element.

See slang/moves/places.slang.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vkbench_shaders.kernel import Layout, Param, Problem, Push
from vkbench_shaders.kernels.shared.rows import gaps
from vkbench_shaders.launch import divisor

DIMS = ("b", "c", "h", "w")

LAYOUT = Param(
    default="contiguous",
    choices=("contiguous", "strided", "permuted"),
    description="how arrays lie: without gaps, rows with gaps, dimensions exchanged",
)

# permuted: the order in which dimensions lie in memory, outermost first
_ORDERS = {True: "bhwc", False: "cbhw"}  # of inputs, of outputs


def layout(problem: Problem, binding: str) -> Layout:
    """Where the items of a binding lie, by the parameter `layout`."""
    return lying(problem, binding, problem.full_shape(binding))


def lying(problem: Problem, binding: str, shape: Sequence[int]) -> Layout:
    """Where items of a binding lie whose shape follows from parameters."""
    match problem.params["layout"]:
        case "strided":
            return Layout.with_gaps(shape, *gaps(problem, binding))
        case "permuted":
            order = _ORDERS[problem.kernel.binding(binding).is_input]
            return Layout.in_order(shape, [DIMS.index(dim) for dim in order])
        case _:
            return Layout.contiguous(shape)


def sizes(shape: Sequence[int]) -> Push:
    """Push constants of the shader's struct Sizes."""
    _, channels, height, width = (divisor(max(size, 1)) for size in shape)
    return {"count": prod(shape), "channels": channels, "height": height, "width": width}


def place(layout: Layout) -> dict[str, int]:
    """A shader's Place, of up to four dimensions; along a last one of 1 all is side by side."""
    *outer, inner = layout.strides
    b, c, h = [0] * (3 - len(outer)) + outer
    w = 1 if layout.shape[-1] == 1 else inner
    return {"b": b, "c": c, "h": h, "w": w, "offset": layout.offset}


def is_flat(layout: Layout) -> bool:
    """Whether its items lie row after row without gaps, from the beginning of its storage on."""
    return layout == Layout.contiguous(layout.shape)
