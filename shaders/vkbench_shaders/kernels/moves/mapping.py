"""Arrays whose items are copied from elsewhere, by a map from target to source indices.

See slang/moves/mapped.slang.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vkbench.case import Case, Value
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Launch, Problem, grid
from vkbench_shaders.kernels.shared import places
from vkbench_shaders.kernels.shared.places import DIMS
from vkbench_shaders.launch import divisor

TYPES = ("f32", "f16", "u8", "i64")  # items of 4, 2, 1 and 8 bytes
MORE_TYPES = ("bf16", "i32", "u32", "f64", "i16")  # as wide as others: the same code moves them
ANY_TYPES = (*TYPES, *MORE_TYPES)
THREADS = 128
SHARE = THREADS * 4 * 16  # bytes of y that a workgroup makes
SAME, AROUND, MIRRORED, OUTSIDE = range(4)  # how indices are mapped


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A dimension of the result, and where its indices point to."""

    size: int
    source: int  # size of x
    added: int = 0  # to an index of y, for one of x
    stride: int = 0  # of x

    @property
    def is_whole(self) -> bool:
        return self.size == self.source and self.added % max(self.source, 1) == 0


def merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """The axes as four: as few as will do, after others of a single index."""
    merged = [axes[-1]]
    for axis in reversed(axes[:-1]):
        joined = _join_axes(axis, merged[0])
        merged[:1] = [joined] if joined else [axis, merged[0]]
    return [Axis(size=1, source=1)] * (4 - len(merged)) + merged


def _join_axes(outer: Axis, inner: Axis) -> Axis | None:
    if inner.size == inner.source == 1:
        return outer
    beside = outer.stride == inner.stride * inner.source or outer.size == outer.source == 1
    if not inner.is_whole or not beside:
        return None
    return Axis(
        size=outer.size * inner.size,
        source=outer.source * inner.size,
        added=outer.added * inner.size,
        stride=inner.stride,
    )


def item_bytes(types: Mapping[str, str]) -> tuple[str, ...]:
    """The generic argument: bytes of an item, all that counts of a format here."""
    return (str(format_named(next(iter(types.values()))).bytes),)


def groups_of(problem: Problem, binding: str = "y") -> tuple[int, int, int]:
    """Workgroups that make an array without gaps."""
    size = prod(problem.array_shape(binding)) * problem.item_bytes(binding)
    return grid(-(-size // SHARE))


def launch_map(problem: Problem, kind: int, added: Sequence[int] = (0, 0, 0, 0)) -> Launch:
    """A launch that maps the indices of y to those of x."""
    x, y = problem.layout("x"), problem.array_shape("y")
    axes = merge_axes(
        [
            Axis(size=size, source=source, added=more, stride=stride)
            for size, source, more, stride in zip(y, x.shape, added, x.strides, strict=True)
        ]
    )
    by_dim, groups = dict(zip(DIMS, axes, strict=True)), groups_of(problem)
    moved = {
        dim: axis.added % (max(axis.source, 1) if kind == AROUND else 1 << 32)
        for dim, axis in by_dim.items()
    }
    return Launch(
        groups=groups,
        push={
            "sizes": places.sizes([axis.size for axis in axes]),
            "x": {**{dim: axis.stride for dim, axis in by_dim.items()}, "offset": x.offset},
            "added": moved,
            **{dim: divisor(max(axis.source, 1)) for dim, axis in by_dim.items()},
            "groups_x": groups[0],
        },
        constants={"THREADS": THREADS, "KIND": kind},
    )


Change = Mapping[str, Value]
Sizes = tuple[int, int, int, int]


def list_cases(
    kernel: str,
    formats: Iterable[str],
    shapes: Iterable[Sizes],
    changes: Iterable[Change] = ({},),
) -> tuple[Case, ...]:
    """Cases of these formats, sizes and parameters."""
    return tuple(
        Case(kernel=kernel, format=fmt, shape=dict(zip(DIMS, sizes, strict=True)), params=change)
        for fmt in formats
        for sizes in shapes
        for change in changes
    )
