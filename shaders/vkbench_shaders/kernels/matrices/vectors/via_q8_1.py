"""Code path via_q8_1 of products with a few vectors: x is rounded to bytes, as q8_1 does it.

Two launches make one result and one timing: the first writes bytes, and the scales of their blocks,
to scratch, in the order in which the second one, the integer product, reads them. A kernel may have
a product that does both in one launch. The path is taken only where it is asked for by name,
because it rounds x.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import gcd

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import (
    Choice,
    Launch,
    Memory,
    Problem,
    Push,
    Refuses,
    Settings,
    Stage,
    Variant,
    grid,
)
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.tuning.thresholds import ByteProducts, thresholds

NAME = "via_q8_1"
_ROUNDING_THREADS = 64
ROUNDERS = 4  # lanes that round a block, where they can shuffle
SHUFFLE = "subgroup_shuffle"
_BYTES, _SCALE = 32, 8  # of a block
_FEATURES = ("int_dot", "subgroup_arithmetic")  # of the faster product
_SIZES = (32, 64, 128, 256)  # of the product's workgroups
_UNITS = (1, 2, 4)


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The vectors of x: how many there are, and where they lie, in elements."""

    count: int
    inner: int = 1  # consecutive ones that are `inner_stride` apart
    inner_stride: int = 0
    outer_stride: int  # between groups of `inner`
    numbered: Push  # what the product's launch says of x where it has the vectors' numbers


@dataclass(frozen=True, kw_only=True)
class Staging:
    """A product whose workgroups round the vectors themselves, into shared memory."""

    stage: Stage
    # the only launch, in place of a plain one; or None, where two are asked for or should be faster
    launch: Callable[[Launch, Problem, DeviceFacts], Launch | None]
    pays: Callable[[Problem, DeviceFacts], bool]  # whether one launch should be faster
    candidates: Callable[[Problem, DeviceFacts], list[Settings]]
    refuses: Refuses


def accepts(types: Mapping[str, str]) -> bool:
    """Whether x is plain numbers and the weights are quantised."""
    return products.is_numbers(types) and format_named(types["weights"]).quantised


def variant(
    name: str,
    buffers: int,
    vectors: Callable[[Problem], Vectors],
    product: Callable[[Problem, DeviceFacts], Launch],
    refuses: Refuses,
    staging: Staging | None = None,
) -> Variant:
    """The code path of a kernel with so many buffers, whose other paths launch `product`."""
    fast = Stage(entry=f"{name}_bytes", arguments=_weights, requires=_FEATURES)

    def rounding(entry: str, *features: str) -> Stage:
        return Stage(
            entry=entry,
            module="round_x",
            arguments=lambda types: (types["x"], f"behind_{buffers}"),
            requires=features,
        )

    def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
        plain, rounded = product(problem, device), vectors(problem)
        if staging and (only := staging.launch(plain, problem, device)):
            return (only,)
        last = replace(
            plain,
            entry=fast.entry if _is_fast(device) else "",
            push={**plain.push, **rounded.numbered},
            constants=fast_constants(problem, device, plain.constants),
        )
        return _rounding(problem, device, rounded, last.constants["UNITS"]), last

    def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, int]:
        blocks = vectors(problem).count * _units(problem)
        return blocks * _BYTES, blocks * _SCALE

    return Variant(
        name=NAME,
        module=name,
        entry=f"{name}_bytes_portable",
        arguments=_weights,
        more=(
            fast,
            rounding("round_x"),
            rounding("round_x_by_lanes", SHUFFLE),
            *((staging.stage,) if staging else ()),
        ),
        launch=launch,
        own=Memory(scratch=scratch),
        arithmetic="int8",
        choice=Choice(
            only_by_name=lambda types: True,
            candidates=lambda problem, device: (
                _either(staging, problem, device) if staging else candidates(problem, device)
            ),
        ),
        accepts=accepts,
        refuses=lambda problem, device: (
            refuses(problem, device) or (staging.refuses(problem, device) if staging else None)
        ),
    )


def _weights(types: Mapping[str, str]) -> tuple[str, ...]:
    return (types["weights"],)


def _units(problem: Problem) -> int:
    """Blocks of a vector."""
    return problem.shape["k"] // products.QUANTISED_UNIT


def _is_fast(device: DeviceFacts) -> bool:
    """Whether the device runs the faster product."""
    return (
        set(_FEATURES) <= set(device.features) and device.subgroup_size >= products.LEAST_SUBGROUP
    )


def _at_once(problem: Problem, device: DeviceFacts) -> int:
    """Blocks that a thread of the product takes at a time: a power of two that divides a row's."""
    if not _is_fast(device):
        return 1
    units = int(problem.params.get("units", 0))
    return gcd(units or _usual_at_once(problem, device), _units(problem))


def _usual_at_once(problem: Problem, device: DeviceFacts) -> int:
    """Blocks that leave enough registers; two or four where neighbours share bytes or lines."""
    weights, columns = problem.types["weights"], _columns(problem)
    measured = thresholds(device, ByteProducts)
    if columns == 1:
        return measured.blocks_at_once.get(weights, 2)
    is_measured = columns <= measured.few_columns and products.is_numbers(problem.types)
    return measured.blocks_at_once_for_few.get(weights, 1) if is_measured else 1


def _threads(problem: Problem, device: DeviceFacts) -> int:
    """Threads of a product: as many as have something to do, and fewer for several columns."""
    steps = _units(problem) // _at_once(problem, device)
    measured = thresholds(device, ByteProducts)
    most = measured.threads if _columns(problem) == 1 else measured.threads_for_columns
    return next((count for count in _SIZES if steps <= count < most), most)


def _columns(problem: Problem) -> int:
    """Columns of y that share what a workgroup reads of the weights; experts' tokens share none."""
    return 1 if "u" in problem.shape else problem.shape["n"]


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Threads of the product's workgroups."""
    usual = _threads(problem, device)
    most = device.limits.get("max_workgroup_invocations", usual)
    sizes = [size for size in _SIZES if size <= most]
    return [{"threads": size} for size in sorted(sizes, key=lambda size: size != usual)]


def _either(staging: Staging, problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Settings of one launch and of two by turns, so that a short sweep has the best of both."""
    both = [staging.candidates(problem, device), _of_two(problem, device)]
    if not staging.pays(problem, device):
        both.reverse()
    return [settings for pair in zip_longest(*both) for settings in pair if settings]


def _of_two(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Threads and units of a product behind the launch that rounds."""
    usual = _at_once(problem, device)
    others = [units for units in _UNITS if _units(problem) % units == 0 and _is_fast(device)]
    return [
        {"rounding": "before", "units": count, **units}
        for count in dict.fromkeys((usual, *others))
        for units in candidates(problem, device)
    ]


def fast_constants(problem: Problem, device: DeviceFacts, own: Mapping[str, int]) -> dict[str, int]:
    """Constants of a product of bytes: threads, and blocks that each takes at a time."""
    threads = int(problem.params["threads"]) or _threads(problem, device)
    return {
        **own,
        "THREADS": threads,
        "UNITS": _at_once(problem, device),
        "PARTIAL": products.room_for_sums(device, threads, own["COLUMNS"]),
    }


def _rounding(problem: Problem, device: DeviceFacts, vectors: Vectors, at_once: int) -> Launch:
    by_lanes = SHUFFLE in device.features and device.subgroup_size >= ROUNDERS
    blocks = vectors.count * _units(problem)
    groups = grid(-(-blocks * (ROUNDERS if by_lanes else 1) // _ROUNDING_THREADS))
    return Launch(
        entry="round_x_by_lanes" if by_lanes else "round_x",
        groups=groups,
        push={
            "blocks": blocks,
            "groups_x": groups[0],
            "units": _units(problem),
            "inner": vectors.inner,
            "x_offset": problem.layout("x").offset,
            "x_outer": vectors.outer_stride,
            "x_inner": vectors.inner_stride,
        },
        constants={
            "THREADS": _ROUNDING_THREADS,
            "ALIGNED": products.are_rows_aligned(problem),
            "PLANES": problem.format("weights").planes,
            "UNITS": at_once,
        },
    )
