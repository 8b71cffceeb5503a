"""Test blocks: bounded, the same for ever, and with every edge case there is."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from vkbench_shaders.formats import QUANTISED, format_named
from vkbench_shaders.inputs.blocks import (
    EDGES,
    edge_places,
    other_bits,
    random_blocks,
    read_scale,
    write_scale,
)
from vkbench_shaders.quantisers.quants import dequantise

Bytes = NDArray[np.uint8]

# Blocks as they were when measurements of them began: others would break replays of old cases.
HASHES = {
    "q4_0": "03a2e754ee18a90f",
    "q4_1": "c4d6199f207e4c11",
    "q5_0": "9445553b2da04a7a",
    "q5_1": "ca10c500b353bfd4",
    "q8_0": "1a2aab1c53cfc085",
    "q8_1": "50c9bea3376c02b9",
    "q2_K": "31416f684c448f55",
    "q3_K": "4afb531840559bcb",
    "q4_K": "48e5f7fd796decae",
    "q5_K": "c0fdae71893277f3",
    "q6_K": "f70becfba013f7c7",
    "q8_K": "4ae6c70ca97c6b63",
    "iq1_s": "fb2bf73ebc4adcf6",
    "iq1_m": "1de50dbe93e7b3bd",
    "iq2_xxs": "51ebf9e95952eecf",
    "iq2_xs": "3a08b9d638512936",
    "iq2_s": "e9a6d54089f691f9",
    "iq3_xxs": "4953c7541de4ab33",
    "iq3_s": "6d7902d48c2f73c7",
    "iq4_nl": "a160c9bfc7dedc03",
    "iq4_xs": "e755fd283d4a809d",
    "tq1_0": "f51104c9d4cee320",
    "tq2_0": "a9595c90f062bf8f",
    "mxfp4": "046b8a4b6459dd9a",
    "nvfp4": "ec2c1fcdfd664e37",
    "q1_0": "7b2618c120eaf944",
    "q2_0": "3dd576258ed7936b",
}

HALVES = [
    name
    for name in QUANTISED
    if {scale.kind for scale in format_named(name).scales} <= {"f16", "f32", "spread"}
]


def seed(what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"test.{what}".encode()).digest()[:16], "little")


def made(name: str, rows: int, columns: int) -> Bytes:
    fmt = format_named(name)
    return random_blocks(fmt, seed, rows, columns // fmt.elements)


def as_blocks(name: str, stored: Bytes) -> Bytes:
    return stored.reshape(-1, format_named(name).bytes)


def edge_blocks(name: str, edge: str) -> Bytes:
    """Edge blocks of a matrix of 129 x 256 weights, the least that the families check."""
    stored = as_blocks(name, made(name, 129, 256))
    places = edge_places(edge, len(stored))
    kept = stored[places[~np.isin(places // (256 // format_named(name).elements), (7, 68))]]
    assert len(kept)
    return kept


@pytest.mark.parametrize("name", QUANTISED)
def test_bytes_never_change(name: str) -> None:
    found = hashlib.sha256(made(name, 70, 1024).tobytes()).hexdigest()
    assert found[:16] == HASHES[name]


@pytest.mark.parametrize("name", QUANTISED)
def test_weights_are_bounded_and_mostly_about_one(name: str) -> None:
    weights = dequantise(name, made(name, 129, 4096))
    assert weights.shape == (129, 4096)
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() < 400
    assert 0.2 < np.median(np.abs(weights)) < 2


@pytest.mark.parametrize("name", QUANTISED)
def test_no_weight_is_a_denormal_single(name: str) -> None:
    weights = dequantise(name, made(name, 129, 4096))
    assert np.abs(weights[weights != 0]).min() >= np.finfo(np.float32).tiny


@pytest.mark.parametrize("name", QUANTISED)
def test_some_rows_are_zeros_whatever_edges_meet_them(name: str) -> None:
    for columns in (256, 512, 1024):
        assert not dequantise(name, made(name, 129, columns))[[7, 68]].any()
    weights = dequantise(name, made(name, 129, 4096))
    assert np.flatnonzero(~weights.any(axis=1)).tolist() == [7, 68]


@pytest.mark.parametrize("name", QUANTISED)
def test_some_channels_are_outliers(name: str) -> None:
    channel = np.median(np.abs(dequantise(name, made(name, 129, 4096))), axis=0)
    outliers = np.count_nonzero(channel > 6 * np.median(channel))
    assert 0 < outliers <= 4096 // 4


@pytest.mark.parametrize("name", HALVES)
def test_rows_name_every_scale_and_nothing_else(name: str) -> None:
    """Twice the scales are twice the weights, exactly, when they and no other bits count."""
    fmt, stored = format_named(name), as_blocks(name, made(name, 129, 256)).copy()
    before = dequantise(name, stored)
    for scale in fmt.scales:
        codes = read_scale(stored, scale)
        kind = np.dtype("<f2" if codes.dtype.itemsize == 2 else "<f4")
        write_scale(stored, scale, (codes.view(kind) * kind.type(2)).view(codes.dtype))
    assert np.array_equal(dequantise(name, stored), 2 * before)


def test_scales_of_mxfp4_are_a_power_of_two_in_the_first_byte() -> None:
    stored = as_blocks("mxfp4", made("mxfp4", 129, 256)).copy()
    before = dequantise("mxfp4", stored)
    stored[:, 0] += 1
    assert np.array_equal(dequantise("mxfp4", stored), 2 * before)
    assert np.unique(stored[:, 0]).size > 8


def test_nvfp4_has_a_scale_for_16_weights_in_each_of_four_bytes() -> None:
    for byte in range(4):
        stored = as_blocks("nvfp4", made("nvfp4", 129, 256)).copy()
        before = dequantise("nvfp4", stored)
        stored[:, byte] = 0x38  # 1
        changed = (dequantise("nvfp4", stored) != before).any(axis=0)
        assert np.flatnonzero(changed).tolist() == [*range(16 * byte, 16 * byte + 16)]
    assert np.unique(stored[:, :4]).size > 40
    assert stored[:, :4].max() <= 0x7F


@pytest.mark.parametrize("name", [name for name in QUANTISED if name != "mxfp4"])
def test_zero_scales_make_zero_weights(name: str) -> None:
    assert not dequantise(name, edge_blocks(name, "zero")).any()


@pytest.mark.parametrize("name", HALVES)
def test_scales_are_negative_largest_and_denormal(name: str) -> None:
    for scale in format_named(name).scales:
        kind = np.dtype("<f4" if scale.kind == "f32" else "<f2")
        negative = read_scale(edge_blocks(name, "negative"), scale)
        assert np.signbit(negative.view(kind)).all()
        largest = read_scale(edge_blocks(name, "largest"), scale).view(kind)
        assert (largest.astype(float) / scale.unit == 32 * (1 - 2**-11)).all()
        denormal = read_scale(edge_blocks(name, "denormal"), scale).view(kind)
        most = 2.0**-126 if scale.kind == "f32" else 2.0**-15
        assert (denormal > 0).all()
        assert (denormal <= most).all()


def test_four_bit_floats_have_their_least_and_largest_scales() -> None:
    assert (edge_blocks("mxfp4", "zero")[:, 0] == 2).all()
    assert (edge_blocks("mxfp4", "largest")[:, 0] == 127 + 3).all()
    assert (edge_blocks("nvfp4", "zero")[:, :4] == 0x7F).all()
    assert (edge_blocks("nvfp4", "denormal")[:, :4] == 3).all()


@pytest.mark.parametrize("name", QUANTISED)
def test_bits_that_are_no_scale_are_all_set_or_all_clear(name: str) -> None:
    fmt = format_named(name)
    scale_bits = 8 * sum({"f16": 2, "spread": 2, "f32": 4}.get(s.kind, 1) for s in fmt.scales)
    derived_bits = {"q8_1": 16, "q8_K": 256}.get(name, 0)
    others = 8 * fmt.bytes - scale_bits - derived_bits
    for edge, expected in (("ones", others), ("zeros", 0)):
        mask = np.bitwise_and.reduce(edge_blocks(name, edge), axis=0)
        most = np.bitwise_or.reduce(edge_blocks(name, edge), axis=0)
        kept = other_bits(fmt)[0].copy()
        kept[{"q8_1": slice(2, 4), "q8_K": slice(260, 292)}.get(name, slice(0))] = 0
        assert int(np.unpackbits(mask & kept).sum()) == expected
        assert int(np.unpackbits(most & kept).sum()) == expected


def test_every_kind_of_edge_is_among_the_first_hundred_blocks() -> None:
    first = [edge_places(edge, 100) for edge in EDGES]
    assert all(places.size for places in first)
    assert np.unique(np.concatenate(first)).size == sum(places.size for places in first)


def test_q8_1_holds_its_scale_times_its_sum() -> None:
    stored = as_blocks("q8_1", made("q8_1", 129, 256))
    halves = stored[:, :4].copy().view("<f2").astype(np.float64)
    sums = stored[:, 4:].view(np.int8).sum(axis=1, dtype=np.int64)
    assert np.array_equal(halves[:, 1], (halves[:, 0] * sums).astype(np.float16))


def test_q8_k_holds_sums_of_16() -> None:
    for block in as_blocks("q8_K", made("q8_K", 129, 256)):
        numbers, sums = block[4:260].view(np.int8).tolist(), block[260:].view("<i2").tolist()
        assert sums == [sum(numbers[at : at + 16]) for at in range(0, 256, 16)]


def grid_indices(name: str, stored: Bytes) -> NDArray[np.int64]:
    """Every index into the format's grid."""
    low = {"iq1_m": 0}.get(name, 2)
    if name == "iq2_xxs":
        return stored[:, 2:].reshape(-1, 8, 8)[:, :, :4].astype(np.int64)
    if name == "iq2_xs":
        return (stored[:, 2:66].copy().view("<u2") & 511).astype(np.int64)
    if name == "iq3_xxs":
        return stored[:, 2:66].astype(np.int64)
    count, start, width, step, bits, kind = {
        "iq2_s": (32, 66, 8, 2, 3, "u1"),
        "iq3_s": (64, 66, 8, 1, 1, "u1"),
        "iq1_s": (32, 34, 16, 3, 7, "<u2"),
        "iq1_m": (32, 32, 16, 4, 7, "u1"),
    }[name]
    high = stored[:, start : start + width].copy().view(kind).astype(np.int64)
    per = count // high.shape[1]
    highs = (high[:, :, None] >> step * np.arange(per)) & bits
    return stored[:, low : low + count] | highs.reshape(-1, count) << 8


GRIDS = {
    "iq2_xxs": 256,
    "iq2_xs": 512,
    "iq2_s": 1024,
    "iq3_xxs": 256,
    "iq3_s": 512,
    "iq1_s": 2048,
    "iq1_m": 2048,
}


@pytest.mark.parametrize("name", GRIDS)
def test_every_entry_of_a_grid_occurs_in_a_checked_matrix(name: str) -> None:
    indices = grid_indices(name, as_blocks(name, made(name, 129, 4096)))
    assert np.unique(indices).tolist() == [*range(GRIDS[name])]


def sign_patterns(name: str, stored: Bytes) -> NDArray[np.int64]:
    """Every 7-bit index of signs, or byte of signs."""
    if name == "iq2_xs":
        return (stored[:, 2:66].copy().view("<u2") >> 9).astype(np.int64)
    if name in ("iq2_s", "iq3_s"):
        start = 34 if name == "iq2_s" else 74
        return stored[:, start : start + 32].astype(np.int64)
    words = {
        "iq2_xxs": stored[:, 2:].reshape(-1, 8, 8)[:, :, 4:],
        "iq3_xxs": stored[:, 66:],
    }[name]
    numbers = np.ascontiguousarray(words).view("<u4").astype(np.int64)
    return (numbers.reshape(-1, 1) >> np.array([0, 7, 14, 21])) & 127


@pytest.mark.parametrize("name", ["iq2_xxs", "iq2_xs", "iq3_xxs", "iq2_s", "iq3_s"])
def test_every_pattern_of_signs_occurs(name: str) -> None:
    patterns = np.unique(sign_patterns(name, as_blocks(name, made(name, 129, 4096))))
    assert patterns.size == (256 if name in ("iq2_s", "iq3_s") else 128)


def test_any_byte_is_five_ternary_digits() -> None:
    block = np.zeros((256, 54), np.uint8)
    block[:, :52] = np.arange(256, dtype=np.uint8)[:, None]
    block[:, 52:] = np.array([1], "<f2").view(np.uint8)
    assert np.unique(dequantise("tq1_0", block)).tolist() == [-1, 0, 1]
    assert np.unique(made("tq1_0", 129, 256)).size == 256
