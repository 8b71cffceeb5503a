"""Transposed convolutions along one axis or two: every output sums what falls on it.

Outputs that lie a multiple of the stride apart are a phase: they see the same taps, on a line of
x. Each phase is a convolution of stride 1, launched by itself; nothing is added twice, so sums are
the same bits every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
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
    Stage,
    Work,
    grid,
)
from vkbench_shaders.kernels.images import patches, windows
from vkbench_shaders.kernels.images.patches import Slide
from vkbench_shaders.kernels.images.windows import TAPS, setting
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

_AXES = 2  # of the shader's windows
_FOUR = 4


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How numbers of x are spread over y along one axis."""

    size: int  # of x
    taps: int  # that each number falls on
    stride: int = 1  # from number to number
    padding: int = 0  # left out at both ends
    dilation: int = 1  # from tap to tap
    more: int = 0  # zeros behind

    @property
    def whole(self) -> int:
        """Length of y before padding is left out."""
        return (self.size - 1) * self.stride + (self.taps - 1) * self.dilation + 1 + self.more

    @property
    def count(self) -> int:
        """Length of y; UsageError where padding leaves nothing."""
        if self.whole <= 2 * self.padding:
            raise UsageError(f"a padding of {self.padding} leaves nothing of {self.whole} outputs")
        return self.whole - 2 * self.padding


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Outputs along one axis that lie `stride` apart, and the taps that fall on them."""

    at: int  # of the first output
    tap: int  # the first one of them
    step: int  # from tap to tap of them
    slide: Slide


def phases(spread: Spread) -> list[Phase]:
    """All phases along an axis; some have no taps, and zeros as outputs."""
    step = spread.stride // gcd(spread.stride, spread.dilation)
    return [_phase(spread, at, step) for at in range(min(spread.stride, spread.count))]


def _phase(spread: Spread, at: int, step: int) -> Phase:
    """The phase of output `at` and of those a stride behind it."""
    from_first = at + spread.padding
    fitting = (
        tap
        for tap in range(min(step, spread.taps))
        if (from_first - tap * spread.dilation) % spread.stride == 0
    )
    tap = next(fitting, spread.taps)
    return Phase(
        at=at,
        tap=tap,
        step=step,
        slide=Slide(
            size=spread.size,
            outputs=-(-(spread.count - at) // spread.stride),
            taps=-(-(spread.taps - tap) // step),
            stride=1,
            first=(from_first - tap * spread.dilation) // spread.stride,
            step=-step * spread.dilation // spread.stride,
        ),
    )


def axes(kernel: Kernel) -> str:
    """The axes that numbers are spread along."""
    return "".join(axis for axis in TAPS if axis in kernel.dims)


def spreads(problem: Problem) -> tuple[Spread, ...]:
    return tuple(
        Spread(
            size=problem.shape[axis],
            taps=problem.shape[TAPS[axis]],
            stride=setting(problem, "stride", axis),
            padding=setting(problem, "padding", axis),
            dilation=setting(problem, "dilation", axis),
            more=setting(problem, "more", axis),
        )
        for axis in axes(problem.kernel)
    )


def layout(problem: Problem, binding: str) -> Layout:
    if binding != "y":
        return Layout.contiguous(problem.full_shape(binding))
    counts = (spread.count for spread in spreads(problem))
    return Layout.contiguous((problem.shape["n"], problem.shape["o"], *counts))


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """A launch for each phase of all axes."""
    height, width = (Spread(size=1, taps=1), *spreads(problem))[-_AXES:]
    pairs = product(phases(height), phases(width))
    return tuple(_launch(problem, device, (height, width), pair) for pair in pairs)


def _launch(
    problem: Problem,
    device: DeviceFacts,
    spread: tuple[Spread, Spread],
    pair: tuple[Phase, Phase],
) -> Launch:
    images, channels, results = (problem.shape[dim] for dim in "nco")
    slides = [phase.slide for phase in pair]
    columns = images * prod(slide.outputs for slide in slides)
    tile = patches.choose(problem, device, results, columns)
    tiles_m = -(-results // tile.m)
    groups = grid(tiles_m * -(-columns // tile.n))
    push: Push = {
        **patches.vectors(slides, _AXES),
        "weights": _places(
            results,
            counts=[axis.taps for axis in spread],
            firsts=[phase.tap for phase in pair],
            steps=[phase.step for phase in pair],
        ),
        "y": _places(
            results,
            counts=[axis.count for axis in spread],
            firsts=[phase.at for phase in pair],
            steps=[axis.stride for axis in spread],
        ),
        "images": images,
        "channels": channels,
        "results": results,
        "tiles_m": tiles_m,
        "groups_x": groups[0],
    }
    return Launch(
        groups=groups,
        push=push,
        constants=tile.constants | {"Y_WIDE": _stores_fours(spread)},
        entry=f"conv_transposed_{tile.block}",
    )


def _places(
    results: int, *, counts: Sequence[int], firsts: Sequence[int], steps: Sequence[int]
) -> dict[str, int]:
    """The first tap or output of a phase, and steps: from block to block, along o and both axes."""
    line, area = counts[1], prod(counts)
    return {
        "first": firsts[0] * line + firsts[1],
        "outer": results * area,
        "o": area,
        "height": steps[0] * line,
        "width": steps[1],
    }


def _stores_fours(spread: tuple[Spread, Spread]) -> bool:
    """Whether there is one phase, whose outputs are whole fours beside each other."""
    return all(axis.stride == 1 for axis in spread) and prod(s.count for s in spread) % _FOUR == 0


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    weights = inputs["weights"] if rows is None else inputs["weights"][:, rows]
    taps = quants.dequantise(problem.types["weights"], weights).swapaxes(0, 1)
    x, along = inputs["x"].astype(np.float64), spreads(problem)
    total = np.zeros((len(x), len(taps), *(spread.whole for spread in along)))
    for place in product(*(range(spread.taps) for spread in along)):
        tap = taps[(slice(None), slice(None), *(slice(at, at + 1) for at in place))]
        falls = tap.reshape(taps.shape[:2]) @ x.reshape(*x.shape[:2], prod(x.shape[2:]))
        where = [_falls(spread, at) for spread, at in zip(along, place, strict=True)]
        total[(slice(None), slice(None), *where)] += falls.reshape(*falls.shape[:2], *x.shape[2:])
    kept = [slice(spread.padding, spread.padding + spread.count) for spread in along]
    return {"y": total[(slice(None), slice(None), *kept)]}


def _falls(spread: Spread, tap: int) -> slice:
    first = tap * spread.dilation
    return slice(first, first + (spread.size - 1) * spread.stride + 1, spread.stride)


def flops(problem: Problem) -> int:
    taps = prod(spread.taps for spread in spreads(problem))
    return 2 * prod(problem.array_shape("x")) * problem.shape["o"] * taps


@dataclass(frozen=True)
class Transposed:
    """One operation: along which axes, and its cases."""

    name: str
    axes: str
    description: str
    shapes: tuple[str, ...]
    timed: tuple[str, ...]


_ALONG_W = (
    "n1_c1_w1_o1_s1",
    "n0_c2_w4_o3_s2",
    "n2_c3_w17_o5_s3/stride=2",
    "n1_c5_w13_o37_s16/padding=4,stride=8",
    "n3_c2_w7_o3_s4/dilation=3,more=1,padding=2,stride=2",
    "n1_c2_w5_o3_s2/stride=5",
    "n1_c3_w19_o2_s337/stride=3",
)
_ALONG_HW = (
    "n1_c1_h1_w1_o1_r1_s1",
    "n2_c3_h3_w2_o1_r2_s2/stride=2",
    "n1_c9_h10_w10_o3_r3_s3/padding=1,stride=2",
    "n2_c4_h5_w6_o35_r3_s2/dilation=2,more=1,padding=1,stride=3,stride_h=1",
    "n1_c2_h4_w3_o3_r1_s2/stride=3",
    "n1_c20_h14_w18_o33_r3_s3",
)
_TRANSPOSED = (
    Transposed(
        "conv_transpose1d",
        "w",
        "Spreads the last axis over taps for all channels, the transpose of conv1d.",
        _ALONG_W,
        ("n1_c1024_w512_o512_s16/padding=4,stride=8", "n1_c32_w16384_o16_s4/padding=1,stride=2"),
    ),
    Transposed(
        "conv_transpose2d",
        "hw",
        "Spreads the last two axes over taps for all channels, the transpose of conv2d.",
        _ALONG_HW,
        (
            "n1_c256_h256_w256_o16_r3_s3",
            "n1_c16_h16_w16_o8_r3_s3",
            "n1_c9_h10_w10_o1_r3_s3/stride=2",
            "n4_c256_h64_w64_o128_r4_s4/padding=1,stride=2",
        ),
    ),
)


def _cases(conv: Transposed) -> Iterator[Case]:
    for fmt in patches.WEIGHTS:
        yield from (parse(f"{conv.name}/{fmt}/{shape}") for shape in conv.shapes)


def _timed_cases(conv: Transposed) -> Iterator[Case]:
    yield from (parse(f"{conv.name}/f32/{shape}") for shape in conv.timed)
    yield parse(f"{conv.name}/f16/{conv.timed[0]}")


def _params(conv: Transposed) -> dict[str, Param]:
    more = "outputs behind, beyond what the taps reach (torch's output_padding)"
    along = {
        f"more_{axis}": Param(
            default=-1, least=-1, description=f"{more}, along {axis}; -1: as more"
        )
        for axis in conv.axes[:-1]
    }
    return {
        **windows.params(conv.axes, "stride", "padding", "dilation"),
        "more": Param(default=0, least=0, description=more),
        **along,
    }


def _kernel(conv: Transposed) -> Kernel:
    taps = tuple(TAPS[axis] for axis in conv.axes)
    return Kernel(
        name=conv.name,
        group="conv",
        description=conv.description,
        dims=("n", "c", *conv.axes, "o", *taps),
        bindings=patches.bindings(
            conv.axes,
            ("c", "o"),
            "taps that a channel of x falls on, for each of y",
            "sums of all that falls on a place",
        ),
        params=_params(conv),
        forms=Forms(layout=layout, empty=("n",)),
        variants=(
            portable(
                "conv_transposed",
                launch,
                "f32",
                entry="conv_transposed_8x8",
                arguments=lambda types: (types["weights"],),
                refuses=patches.refuses,
                more=(
                    Stage(entry="conv_transposed_4x4", arguments=lambda types: (types["weights"],)),
                ),
            ),
        ),
        inputs=lambda problem: {name: data.bell(problem, name) for name in ("weights", "x")},
        check=Check(reference=reference, rows="o"),
        work=Work(flops=flops),
        cases=CaseList(lambda: _cases(conv)),
        timed=CaseList(lambda: _timed_cases(conv)),
    )


CONV_TRANSPOSED = tuple(_kernel(conv) for conv in _TRANSPOSED)
