"""How the arrays of convolutions lie: their width innermost, or their channels."""

from __future__ import annotations

from vkbench.case import Case, parse
from vkbench_shaders.kernel import Kernel, Layout, Param, Problem
from vkbench_shaders.kernels.images import windows
from vkbench_shaders.kernels.images.windows import TAPS, Window

LAYOUT = Param(
    default="nchw",
    choices=("nchw", "nhwc"),
    description="which dimension is innermost in memory: the width, or the channels (ggml's CWHN)",
)


def axes(kernel: Kernel) -> str:
    """The axes that windows slide along."""
    return "".join(axis for axis in TAPS if axis in kernel.dims)


def along(problem: Problem) -> tuple[Window, ...]:
    return windows.windows(problem, axes(problem.kernel))


def is_last(problem: Problem) -> bool:
    """Whether channels are innermost."""
    return problem.params.get("layout") == "nhwc"


def layout(problem: Problem, binding: str) -> Layout:
    shape = problem.full_shape(binding)
    if binding == "y":
        shape = (*shape[:2], *(axis.count for axis in along(problem)))
    return channels_last(shape) if is_last(problem) else Layout.contiguous(shape)


def channels_last(shape: tuple[int, ...]) -> Layout:
    """The second dimension innermost."""
    return Layout.in_order(shape, (0, *range(2, len(shape)), 1))


def put_channels_last(case: str) -> Case:
    """A case with channels innermost."""
    return parse(f"{case}{',' if case.count('/') == 3 else '/'}layout=nhwc")
