"""Arrays b c h w that lie in memory in any way, and launches over them: strided.slang's other half.

A launch is independent of the names of dimensions: those of size 1 go, the others are ordered as
they lie in the output, and neighbours that lie alike in all arrays become one. What is left is
packed with multipliers that divide by its sizes.

Which way a launch goes is a specialisation constant, so that its code is no more than it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vkbench.case import Case, Value
from vkbench_shaders.kernel import Launch, Layout, Param, Problem, Push, grid

DIMS = ("b", "c", "h", "w")
THREADS = 128
MOST = 4  # bindings

LAYOUT = Param(
    default="contiguous",
    choices=("contiguous", "strided", "permuted"),
    description="how arrays lie: without gaps, rows with gaps, dimensions exchanged",
)

_EACH = 16  # elements a thread, of arrays with more slots than SMALL
SMALL = 1 << 14
_FLAT, _WIDE, _LINES, _WORDS = range(4)  # the ways of strided.slang
_OUTPUT = -1  # place of the output in the tables below

# strided: items in front of all and of the gap behind each row, by the binding's place
_GAPS = {0: (5, 3), 1: (2, 1), 2: (1, 4), _OUTPUT: (7, 2)}
# permuted: the order in which dimensions lie in memory, outermost first
_ORDERS = {0: "bhwc", 1: "bcwh", 2: "whcb", _OUTPUT: "cbhw"}


def case(
    kernel: str, fmt: str, shape: Sequence[int], params: Mapping[str, Value] | None = None
) -> Case:
    """A case of so many b, c, h and w."""
    sizes = dict(zip(DIMS, shape, strict=True))
    return Case(kernel=kernel, format=fmt, shape=sizes, params=params or {})


def layout(problem: Problem, binding: str) -> Layout:
    """Where a binding of the full shape lies, by the parameter `layout`."""
    return lay_out_array(problem, binding, problem.full_shape(binding))


def lay_out_array(problem: Problem, binding: str, shape: tuple[int, ...]) -> Layout:
    """Where an array b c h w of a binding lies, by the parameter `layout`."""
    names = [bound.name for bound in problem.kernel.bindings]
    place = _OUTPUT if problem.kernel.binding(binding).is_output else names.index(binding)
    match problem.params["layout"]:
        case "strided":
            return Layout.with_gaps(shape, *_GAPS[place])
        case "permuted":
            return Layout.in_order(shape, [DIMS.index(dim) for dim in _ORDERS[place]])
        case _:
            return Layout.contiguous(shape)


def launch(problem: Problem, params: Sequence[float] = ()) -> Launch:
    """A launch over the last binding's elements, arrays of size 1 along a dimension repeated.

    `params` are the operation's: four floats at most.
    """
    names = [bound.name for bound in problem.kernel.bindings]
    return over([problem.layout(name) for name in names], problem.item_bytes(names[-1]), params)


def over(layouts: Sequence[Layout], output_bytes: int, params: Sequence[float] = ()) -> Launch:
    """A launch over the elements of the last of these arrays, its items so many bytes."""
    if not prod(layouts[-1].shape):
        return Launch(groups=(0, 1, 1), push=_NOTHING, constants=_constants(_FLAT, 0))
    walk = _walk(layouts, output_bytes)
    groups = grid(walk.workgroups)
    push = _push(walk, groups[0], params)
    constants = _constants(walk.way, walk.repeated, is_single=walk.is_single)
    return Launch(groups=groups, push=push, constants=constants)


def _constants(way: int, repeated: int, *, is_single: bool = False) -> dict[str, int]:
    return {"THREADS": THREADS, "WAY": way, "REPEATED": repeated, "SINGLE": int(is_single)}


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """The order in which a launch goes over its arrays, and how much it takes at once."""

    sizes: tuple[int, ...]  # b, c, h, w after merging
    strides: tuple[tuple[int, ...], ...]  # of each binding, along them
    offsets: tuple[int, ...]
    wide: bool
    slot: int  # elements
    slots_a_row: int

    @property
    def slots(self) -> int:
        return prod(self.sizes[:-1]) * self.slots_a_row

    @property
    def way(self) -> int:
        """How a shader goes: no more dimensions than there are."""
        batch, channels, height, _ = self.sizes
        if self.wide:
            return _FLAT if batch * channels * height == 1 else _WIDE
        return _LINES if batch * channels == 1 and height >= self.slots_a_thread else _WORDS

    @property
    def is_single(self) -> bool:
        """Whether a thread makes one slot alone: the launch is over when its slowest thread is."""
        return self.wide and self.slots <= SMALL

    @property
    def slots_a_thread(self) -> int:
        return 1 if self.is_single else _EACH // self.slot

    @property
    def tile_power(self) -> int:
        """Logarithm of a tile's columns: many, but few of them beyond the end of a row."""
        return min(range(THREADS.bit_length()), key=self._tile_cost)

    def _tile_cost(self, power: int) -> float:
        columns = 1 << power
        return -(-self.slots_a_row // columns) * (columns + 4)

    @property
    def tiles_a_row(self) -> int:
        return -(-self.slots_a_row >> self.tile_power)

    @property
    def workgroups(self) -> int:
        if self.way != _LINES:
            return -(-self.slots // (THREADS * self.slots_a_thread))
        rows = (THREADS >> self.tile_power) * self.slots_a_thread
        return self.tiles_a_row * -(-self.sizes[-2] // rows)

    @property
    def repeated(self) -> int:
        """Bindings, a bit each, whose rows are one number; by words each has its stride."""
        if not self.wide:
            return 0
        return sum(1 << place for place, own in enumerate(self.strides) if own[-1] == 0)


def _walk(layouts: Sequence[Layout], output_bytes: int) -> _Walk:
    sizes, strides = _merge_dimensions(layouts)
    offsets = tuple(lay.offset for lay in layouts)
    wide = all(_begins_whole(own, offset) for own, offset in zip(strides, offsets, strict=True))
    a_word = 4 // output_bytes
    if a_word > 1 and strides[-1][-1] != 1:
        raise ValueError("an output narrower than a word has one dimension without gaps")
    slot = (4 if a_word == 1 else 8) if wide else a_word
    a_row = (sizes[-1] + (1 if wide else 2) * (slot - 1)) // slot
    return _Walk(
        sizes=sizes, strides=strides, offsets=offsets, wide=wide, slot=slot, slots_a_row=a_row
    )


def _merge_dimensions(
    layouts: Sequence[Layout],
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Sizes and strides of at most four dimensions: outermost of the output first."""
    output = layouts[-1]
    dims = [
        (size, tuple(_stride(lay, axis) for lay in layouts))
        for axis, size in enumerate(output.shape)
        if size != 1
    ]
    dims.sort(key=lambda dim: -dim[1][-1])
    kept: list[tuple[int, tuple[int, ...]]] = []
    for size, inner in dims:
        if kept and kept[-1][1] == tuple(stride * size for stride in inner):
            size *= kept.pop()[0]
        kept.append((size, inner))
    if len(kept) < MOST and (not kept or kept[-1][1][-1] != 1):  # the output's rows have no gaps
        kept.append((1, (1,) * len(layouts)))
    filled = [(1, (0,) * len(layouts))] * (MOST - len(kept)) + kept
    sizes = tuple(size for size, _ in filled)
    return sizes, tuple(tuple(dim[1][place] for dim in filled) for place in range(len(layouts)))


def _stride(lay: Layout, axis: int) -> int:
    """0 along what an array is repeated over."""
    return 0 if lay.shape[axis] == 1 else lay.strides[axis]


def _begins_whole(strides: tuple[int, ...], offset: int) -> bool:
    """Whether each row's items lie beside each other from a multiple of 8 on, or are one item."""
    *outer, inner = strides
    return inner == 0 or (inner == 1 and all(part % 8 == 0 for part in (offset, *outer)))


# the shader's Strided, of a launch over no element
_NOTHING: Push = {
    **{f"strides{place}": (0, 0, 0, 0) for place in range(MOST)},
    "offsets": (0, 0, 0, 0),
    "params": (0.0, 0.0, 0.0, 0.0),
    "slots": 0,
    "channels": 0,
    "height": 0,
    "width": 0,
    "multiplier_slots": 0,
    "multiplier_height": 0,
    "multiplier_channels": 0,
    "packed": 0,
}


def _push(walk: _Walk, groups_x: int, params: Sequence[float]) -> Push:
    _, channels, height, width = walk.sizes
    slots = walk.slots
    divisions = [division(size) for size in (walk.slots_a_row, height, channels)]
    if walk.way == _LINES:
        slots = walk.tiles_a_row
        divisions = [division(slots), (0, walk.tile_power), (0, 0)]
    packed = sum(shift << (5 * place) for place, (_, shift) in enumerate(divisions))
    packed |= groups_x << 16
    multipliers = [multiplier for multiplier, _ in divisions]
    return {
        **_NOTHING,
        **{f"strides{place}": own for place, own in enumerate(walk.strides)},
        "offsets": (*walk.offsets, *[0] * (MOST - len(walk.offsets))),
        "params": (*params, *[0.0] * (4 - len(params))),
        "slots": slots,
        "channels": channels,
        "height": height,
        "width": width,
        "multiplier_slots": multipliers[0],
        "multiplier_height": multipliers[1],
        "multiplier_channels": multipliers[2],
        "packed": packed,
    }


def division(divisor: int) -> tuple[int, int]:
    """Multiplier m and shift s with n // divisor == ((n * m >> 32) + n) >> s for n < 2^31."""
    shift = max(divisor - 1, 0).bit_length()
    return ((1 << 32) * ((1 << shift) - max(divisor, 1)) // max(divisor, 1) + 1, shift)
