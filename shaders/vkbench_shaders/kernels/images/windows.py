"""Windows that slide over the last axes of an array: their parameters, sizes, and views by tap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.kernel import Array, Param, Problem

TAPS = {"d": "t", "h": "r", "w": "s"}  # dimension of weights that lies along each axis


@dataclass(frozen=True, kw_only=True)
class Window:
    """How windows lie along one axis."""

    size: int  # of the array
    taps: int  # that a window looks at
    stride: int = 1  # between windows
    padding: int = 0  # in front of the array and behind it
    dilation: int = 1  # between taps

    @property
    def reach(self) -> int:
        """Places from a window's first tap to its last one, both included."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        """Windows along the axis; UsageError where not even one fits."""
        room = self.size + 2 * self.padding - self.reach
        if room < 0:
            raise UsageError(
                f"a window that reaches over {self.reach} places does not fit into "
                f"{self.size} and a padding of {self.padding}"
            )
        return room // self.stride + 1

    @property
    def push(self) -> dict[str, int]:
        """Push constants of the shader's struct Axis."""
        return {
            "size": self.size,
            "outputs": self.count,
            "taps": self.taps,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }


def setting(problem: Problem, name: str, axis: str) -> int:
    """A parameter along an axis: its own value, or the one for all axes."""
    own = problem.params.get(f"{name}_{axis}", -1)
    return int(problem.params[name] if own == -1 else own)


def windows(problem: Problem, axes: str) -> tuple[Window, ...]:
    """A problem's windows, an axis each; taps are dimensions of weights or the parameter kernel."""
    return tuple(
        Window(
            size=problem.shape[axis],
            taps=_taps(problem, axis),
            **{
                name: setting(problem, name, axis)
                for name in ("stride", "padding", "dilation")
                if name in problem.params
            },
        )
        for axis in axes
    )


def _taps(problem: Problem, axis: str) -> int:
    if "kernel" in problem.params:
        return setting(problem, "kernel", axis)
    return problem.shape[TAPS[axis]]


_SETTINGS = {
    "kernel": (3, 1, "places that a window looks at"),
    "stride": (1, 1, "places from one window to the next"),
    "padding": (0, 0, "places in front of the array and behind it"),
    "dilation": (1, 1, "places from one tap of a window to the next"),
}


def params(axes: str, *names: str) -> Mapping[str, Param]:
    """Parameters of windows: one for all axes, and one for each axis but the last."""
    made: dict[str, Param] = {}
    for name in names:
        default, least, description = _SETTINGS[name]
        made[name] = Param(default=default, least=least, description=description)
        for axis in axes[:-1]:
            made[f"{name}_{axis}"] = Param(
                default=-1, least=-1, description=f"{description}, along {axis}; -1: as {name}"
            )
    return made


def taps(
    x: Array, along: tuple[Window, ...], fill: float
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Each tap's place in the window and what all windows see there; `fill` is the padding."""
    ahead = x.ndim - len(along)
    sides = [(0, 0)] * ahead + [(axis.padding, axis.padding) for axis in along]
    padded = np.pad(x, sides, constant_values=fill)
    for place in product(*(range(axis.taps) for axis in along)):
        seen = [_slice_of_tap(axis, tap) for axis, tap in zip(along, place, strict=True)]
        yield place, padded[(*[slice(None)] * ahead, *seen)]


def _slice_of_tap(axis: Window, tap: int) -> slice:
    first = tap * axis.dilation
    return slice(first, first + (axis.count - 1) * axis.stride + 1, axis.stride)
