"""Rows of convolutions, windows, pools and upsampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.kernels.images.windows import setting
from vkbench_worker.peers.library import Row, Views

_STEPS: Final = ("stride", "padding", "dilation")
_BILINEAR, _BICUBIC = 1, 2  # ggml's modes
_CORNERS, _ANTIALIAS = 1 << 8, 1 << 9  # and flags
_LARGEST, _MEAN = 0, 1  # ggml's kinds of pools


def _along(problem: Problem, axes: str, *names: str) -> list[int]:
    """Parameters along axes, the first of them along all, then the second."""
    return [setting(problem, name, axis) for name in names for axis in axes]


def _params(axes: str, *names: str) -> frozenset[str]:
    return frozenset(f"{name}{end}" for name in names for end in ("", *(f"_{a}" for a in axes)))


def _conv2d(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["weights"], views["x"], *_along(problem, "wh", *_STEPS), views["y"]


def _conv2d_dw(problem: Problem, views: Views) -> tuple[object, ...]:
    c, r, s = (problem.shape[dim] for dim in "crs")
    x, *rest = _conv2d(problem, views)[1:]
    return views["weights"].reshape(c, 1, r, s), x, *rest


def _conv3d(problem: Problem, views: Views) -> tuple[object, ...]:
    shape = problem.shape
    n, c, o = (shape[dim] for dim in "nco")
    weights = views["weights"].reshape(o * c, *(shape[dim] for dim in "trs"))
    x = views["x"].reshape(n * c, *(shape[dim] for dim in "dhw"))
    y = views["y"].reshape(n * o, *problem.array_shape("y")[2:])
    return weights, x, *_along(problem, "whd", *_STEPS), c, n, o, y


def _spread_row(problem: Problem, views: Views) -> tuple[object, ...]:
    _, c, w = problem.array_shape("x")
    stride, padding, dilation = _along(problem, "w", *_STEPS)
    return views["weights"], views["x"].reshape(c, w), stride, padding, dilation, views["y"]


def _spread_images(problem: Problem, views: Views) -> tuple[object, ...]:
    return views["weights"], views["x"], setting(problem, "stride", "w"), views["y"]


def _one_image(problem: Problem) -> str:
    return "of several images" if problem.shape["n"] > 1 else ""


def _lacks_of(axes: str, fits: Callable[[Problem], str]) -> Callable[[Problem], str]:
    """What of a transposed convolution ggml has not: padding, dilation, different strides."""

    def reason(problem: Problem) -> str:
        for name, default in (("padding", 0), ("dilation", 1), ("more", 0)):
            if {setting(problem, name, axis) for axis in axes} != {default}:
                return f"with {name}"
        if len({setting(problem, "stride", axis) for axis in axes}) > 1:
            return "with different strides"
        return fits(problem)

    return reason


def _im2col(problem: Problem, views: Views) -> tuple[object, ...]:
    c, fmt = problem.shape["c"], problem.format("y").ggml
    if "h" not in problem.shape:
        steps = [step for along in _along(problem, "w", *_STEPS) for step in (along, 0)]
        return views["x"], (1, c, *_along(problem, "w", "kernel")), (*steps, False, fmt), views["y"]
    taps = (1, c, *_along(problem, "hw", "kernel"))
    return views["x"], taps, (*_along(problem, "wh", *_STEPS), True, fmt), views["y"]


def _im2col3d(problem: Problem, views: Views) -> tuple[object, ...]:
    n, c, *sizes = problem.array_shape("x")
    taps = (c, *_along(problem, "dhw", "kernel"))
    steps = (c, *_along(problem, "whd", *_STEPS), problem.format("y").ggml)
    return views["x"].reshape(n * c, *sizes), taps, steps, views["y"]


def _col2im(problem: Problem, views: Views) -> tuple[object, ...]:
    _, w, o, s = problem.array_shape("x")
    steps = (int(problem.params["stride"]), o, int(problem.params["padding"]))
    return views["x"].reshape(w, o * s), *steps, views["y"]


def _pool(kind: int, axes: str) -> Callable[[Problem, Views], tuple[object, ...]]:
    def arguments(problem: Problem, views: Views) -> tuple[object, ...]:
        sizes = _along(problem, axes, "kernel", "stride", "padding")
        return views["x"], kind, *sizes, views["y"]

    return arguments


def _lowest_of_nothing(problem: Problem, y: Array, given: Callable[[str], Array]) -> Array:
    """Of a window that is padding alone ggml makes the lowest number, and we -Inf."""
    return np.where(y == np.finfo(np.float32).min, np.float32(-np.inf), y)


def _divides_by(divisor: str, axes: str) -> Callable[[Problem], str]:
    """A mean of ggml's divides by one number, which is the same without padding."""

    def reason(problem: Problem) -> str:
        is_same = problem.params["divisor"] == divisor or not any(_along(problem, axes, "padding"))
        return "" if is_same else f"with divisor={problem.params['divisor']}"

    return reason


def _upsample(mode: int) -> Callable[[Problem, Views], tuple[object, ...]]:
    def arguments(problem: Problem, views: Views) -> tuple[object, ...]:
        x, y = views["x"], views["y"]
        if len(x.shape) == 3:
            x, y = (array.reshape(*array.shape[:2], 1, array.shape[2]) for array in (x, y))
        corners = problem.params.get("corners") == "align"
        smoothed = problem.params.get("antialias") == "yes"
        return x, mode | (_CORNERS if corners else 0) | (_ANTIALIAS if smoothed else 0), y

    return arguments


_STRIDES_1D: Final = _params("", *_STEPS, "more")

ROWS: Final[Mapping[str, Row]] = {
    "conv2d": Row(
        function="conv_2d_direct",
        arguments=_conv2d,
        params=_params("h", *_STEPS),
        path="f16_accumulation",
    ),
    "conv2d_dw": Row(
        function="conv_2d_dw_direct",
        arguments=_conv2d_dw,
        params=_params("h", *_STEPS),
        path="library_sums",
    ),
    "conv3d": Row(
        function="conv_3d_direct",
        arguments=_conv3d,
        params=_params("hd", *_STEPS),
        path="f16_accumulation",
    ),
    "conv_transpose1d": Row(
        function="conv_transpose_1d",
        arguments=_spread_row,
        params=_STRIDES_1D,
        fits=_lacks_of("w", _one_image),
        path="library_sums",
    ),
    "conv_transpose2d": Row(
        function="conv_transpose_2d_p0",
        arguments=_spread_images,
        params=_params("h", *_STEPS, "more"),
        fits=_lacks_of("hw", lambda problem: ""),
        path="f16_accumulation",
    ),
    **{
        name: Row(
            function="im2col_of",
            arguments=_im2col,
            params=_params(axes, "kernel", *_STEPS),
            path="f32",
        )
        for name, axes in (("im2col1d", ""), ("im2col", "h"))
    },
    "im2col3d": Row(
        function="im2col3d_of",
        arguments=_im2col3d,
        params=_params("hd", "kernel", *_STEPS),
        fits=lambda problem: "" if problem.types["x"] == "f32" else "of halves",
        path="f32",
    ),
    "col2im1d": Row(
        function="col2im_1d",
        arguments=_col2im,
        params=frozenset({"stride", "padding"}),
        fits=_one_image,
        path="f32",
    ),
    **{
        f"{name}_pool{len(axes)}d": Row(
            function=f"pool_{len(axes)}d",
            arguments=_pool(kind, axes),
            params=_params(axes[1:], "kernel", "stride", "padding") | own,
            fits=fits,
            path="f32",  # devices may have zeros for numbers below the least normal one
            order=order,
        )
        for axes, divisor in (("w", "inside"), ("wh", "window"))
        for name, kind, own, fits, order in (
            ("max", _LARGEST, set(), lambda problem: "", {"y": _lowest_of_nothing}),
            ("avg", _MEAN, {"divisor"}, _divides_by(divisor, axes), {}),
        )
    },
    **{
        f"upsample_{name}": Row(
            function="upsample", arguments=_upsample(mode), params=frozenset({"factor", *sizes})
        )
        for name, mode, sizes in (
            ("nearest1d", 0, ("width",)),
            ("nearest2d", 0, ("width", "height")),
            ("bilinear2d", _BILINEAR, ("width", "height", "corners", "antialias")),
            ("bicubic2d", _BICUBIC, ("width", "height", "corners")),
        )
    },
}
