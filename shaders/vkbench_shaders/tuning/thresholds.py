"""Measured thresholds by which kernels estimate what is fastest, by classes of devices.

A threshold is a number found by timing both sides of it, such as the most positions up to which one
launch is faster than two. A tuning table may have a group of them for its class of devices. Classes
whose table has no such group take it from `any.json`, which was measured on one H100 and one H200,
scaled by their calibration if their table has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, TypeVar

from vkbench.device import DeviceFacts
from vkbench.messages import wire
from vkbench.words.names import pick
from vkbench_shaders.tuning.classes import ANY, class_of, read_tables
from vkbench_shaders.tuning.estimates import Peaks, scale_thresholds


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Where attention changes from one way of sharing out its work to another."""

    GROUP: ClassVar[str] = "attention"

    split_workgroups: int  # of partitions without tiles, that keep a large GPU busy
    split_positions: tuple[int, int]  # fewest and most that the smallest partition may have
    split_scores: int  # singles in shared memory: more leave room for fewer workgroups
    tiles_from_rows: int  # rows of a group from which on tiles are faster
    tiles_workgroups: int  # of tiles: enough for the last ones to leave few units without work
    tiles_positions: int  # fewest of a partition of tiles
    short_positions: int  # up to which each row may read all keys and values by itself
    short_numbers: int  # of keys and values, the same
    short_numbers_in_blocks: int  # the same for keys that are quantised
    whole_positions: int  # up to which a workgroup may make a row's result in one launch
    matrices_from_rows: int  # rows of a group from which on matrices are faster than threads
    matrices_positions: int  # up to which they are for fewer rows too, in one launch
    matrices_narrow_keys: int  # numbers of keys up to which they are at any number of positions
    matrices_whole_keys: int  # up to which matrices are faster than a workgroup for each row
    matrices_workgroups: int  # of tiles on matrices, fewest that are wanted
    matrices_part: int  # fewest positions of a partition of tiles on matrices
    few_rows: int  # of a group, up to which partitions on matrices are faster than tiles
    joined_width: int  # numbers of keys and values up to which one workgroup may join partitions
    joined_rows: int  # most rows of all partitions of a tile that one workgroup joins
    narrow_width: int  # numbers that one workgroup reads of twice the positions
    combined_in_pieces: int  # rows up to which several workgroups join the partitions of one


@dataclass(frozen=True, kw_only=True)
class ByteProducts:
    """How threads share products of a few vectors that were rounded to bytes."""

    GROUP: ClassVar[str] = "byte_products"

    threads: int  # most of a workgroup, for one vector
    threads_for_columns: int  # the same for several
    blocks_at_once: Mapping[str, int]  # by formats of weights, that a thread takes; else 2
    few_columns: int  # vectors up to which threads may take several blocks
    blocks_at_once_for_few: Mapping[str, int]  # for so many vectors; else 1
    unit_threads: int  # of a multiprocessor, as large workgroups leave it
    heights: tuple[int, ...]  # rows that the teams of a workgroup take at a time, best first
    least_busy: float  # share of multiprocessors that the highest workgroups must leave busy
    most_passes: int  # times that a workgroup takes rows
    in_pairs: tuple[str, ...]  # formats whose threads take two blocks at a time


@dataclass(frozen=True, kw_only=True)
class MatrixProducts:
    """What products by cooperative matrices cost beside rounds of tiles."""

    GROUP: ClassVar[str] = "matrix_products"

    row_cost: float  # more time for each row of a tile that is read where it lies
    rounding_cost: float  # more time for each row of a tile that rounds some of them on the way
    rate_over_fma: float  # operations of matrix units for one of f32
    least_part: int  # of k, where it is split without being asked
    in_place_rows: int  # of the other factor, up to which tiles round a factor of f32 themselves
    in_place_side: int  # of a tile whose threads have registers for that


@dataclass(frozen=True, kw_only=True)
class FewVectors:
    """Where products of few vectors change to matrix units, and how these share the work."""

    GROUP: ClassVar[str] = "few_vectors"

    fragments_vectors: int  # up to which lanes decode the elements of matrices themselves
    decoding_vectors: int  # up to which workgroups decode weights into shared memory
    rows: int  # of weights, from which on both are faster than threads
    tall_busy: float  # share of multiprocessors that two matrices' worth of rows must leave busy
    resident: int  # workgroups that a multiprocessor holds, where parts of k keep it busy
    least_steps: int  # of such a part


@dataclass(frozen=True, kw_only=True)
class Convolutions:
    """What convolutions by cooperative matrices cost, in one launch or with patches packed."""

    GROUP: ClassVar[str] = "convolutions"

    matrices_depth: int  # terms of a sum from which on matrices are faster
    matrices_results: int  # channels of y from which on they are
    rate_over_fma: float  # operations of matrix units for one of f32
    load_cost: float  # operations of f32 in the time of loading and rounding a number
    packed_step: float  # of the usual time of a step, where patches are packed before


Group = Attention | ByteProducts | MatrixProducts | FewVectors | Convolutions
T = TypeVar("T", Attention, ByteProducts, MatrixProducts, FewVectors, Convolutions)
GROUPS: tuple[type[Group], ...] = (
    Attention,
    ByteProducts,
    MatrixProducts,
    FewVectors,
    Convolutions,
)
_BY_NAME = {group.GROUP: group for group in GROUPS}


def thresholds(device: DeviceFacts, group: type[T]) -> T:
    """A group of thresholds for a device: measured for its class, else estimated."""
    for_device = read_group(class_of(device).name, group.GROUP, device.compute_units)
    assert isinstance(for_device, group)
    return for_device


def check_thresholds(groups: Mapping[str, Mapping[str, object]]) -> None:
    """Raise MalformedMessage or UsageError for a group that is unknown or lacks a threshold."""
    for name, values in groups.items():
        wire.from_builtins(values, _BY_NAME[pick(name, _BY_NAME, "group of thresholds")])


@cache
def read_group(device_class: str, name: str, compute_units: int) -> Group:
    """A group of a class's tables; else that of any class, for the device that was calibrated."""
    kind, own = _BY_NAME[name], read_tables(device_class)
    for table in own:
        if values := table["thresholds"].get(name):
            return wire.from_builtins(values, kind)
    table = next(table for table in read_tables(ANY) if name in table["thresholds"])
    group = wire.from_builtins(table["thresholds"][name], kind)
    peaks = next(filter(None, (table.get("peaks") for table in own)), None)
    if not (peaks and table.get("peaks")):
        return group
    measured, device = (wire.from_builtins(of, Peaks) for of in (table["peaks"], peaks))
    device = device.with_units(compute_units or device.compute_units)
    return replace(group, **scale_thresholds(vars(group), measured, device))
