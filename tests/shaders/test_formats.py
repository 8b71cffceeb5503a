"""The formats table against gguf's, and what its rows say of arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from vkbench.errors import UnknownName
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile.tree import TREE
from vkbench_shaders.formats import (
    ENCODED,
    FORMATS,
    PLAIN,
    PREPARED,
    QUANTISED,
    WEIGHTS,
    Format,
    format_named,
)

# gguf gives q8_1 two singles for its scales, ggml's has two halves; it does not know q2_0 yet
OTHERWISE_IN_GGUF = {"q8_1": (32, 40)}
UNKNOWN_TO_GGUF = {"q2_0"}


def test_all_live_types_are_there() -> None:
    assert len({fmt.name for fmt in FORMATS}) == len(FORMATS)
    numbers = [fmt.ggml for fmt in FORMATS if fmt.ggml is not None]
    assert len(numbers) == len(set(numbers)) == 35
    assert {fmt.name for fmt in FORMATS if fmt.ggml is None} == {"u8", "u32", "f8_e4m3"}


def test_gguf_knows_no_other_type() -> None:
    known = {kind.name.lower() for kind in GGMLQuantizationType}
    assert known | UNKNOWN_TO_GGUF == {fmt.name.lower() for fmt in FORMATS if fmt.ggml is not None}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_numbers_and_sizes_are_gguf_s(fmt: Format) -> None:
    if fmt.name in UNKNOWN_TO_GGUF or fmt.ggml is None:
        assert fmt.ggml not in list(GGMLQuantizationType)
        return
    kind = GGMLQuantizationType[fmt.name.upper()]
    expected = GGML_QUANT_SIZES[kind]
    assert fmt.ggml == kind.value
    if fmt.name in OTHERWISE_IN_GGUF:
        assert expected == OTHERWISE_IN_GGUF[fmt.name] != (fmt.elements, fmt.bytes)
    else:
        assert (fmt.elements, fmt.bytes) == expected


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_a_block_is_whole_array_items(fmt: Format) -> None:
    assert fmt.bytes % fmt.dtype.itemsize == 0
    assert fmt.items(fmt.elements) * fmt.dtype.itemsize == fmt.bytes
    assert not fmt.quantised or fmt.dtype == np.uint8
    assert fmt.description


def test_q4_0_blocks_are_18_bytes_on_multiples_of_2() -> None:
    """A half and 16 bytes: every other block begins between words, as in GGML's arrays."""
    blocks = format_named("q4_0")
    assert (blocks.elements, blocks.bytes) == (32, 18)
    assert [n * blocks.items(32) * blocks.dtype.itemsize % 4 for n in range(4)] == [0, 2, 0, 2]


def test_q8_1_has_two_halves_before_its_bytes() -> None:
    assert format_named("q8_1").bytes == 2 * 2 + 32


def test_names_match_whatever_their_case() -> None:
    assert format_named("Q4_0").name == "q4_0"
    assert format_named("q4_k").name == "q4_K"


def test_an_unknown_name_brings_near_ones() -> None:
    with pytest.raises(UnknownName) as error:
        format_named("q4_00")
    assert "q4_0" in error.value.near


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_formats_that_kernels_use_have_a_slang_type_of_their_size(kernel) -> None:  # type: ignore[no-untyped-def]
    source = "".join(path.read_text() for path in TREE.rglob("*.slang"))
    for types in kernel.type_choices():
        for variant in kernel.variants_for(types):
            for name in set(variant.arguments(types)) & {fmt.name for fmt in FORMATS}:
                fmt = format_named(name)
                body = re.search(rf"public struct {name} : I\w+\n\{{(.*?)\n\}}", source, re.DOTALL)
                assert body, f"no struct {name}"
                assert f"BLOCK = {fmt.elements};" in body[1]
                assert f"BYTES = {fmt.bytes};" in body[1]


def test_selections_follow_from_the_rows() -> None:
    assert (len(QUANTISED), len(WEIGHTS)) == (27, 25)
    assert set(QUANTISED) - set(WEIGHTS) == {"q8_1", "q8_K"}
    assert PLAIN == ("f32", "f16", "bf16")
    written = "q8_1 q4_0 q4_1 q5_0 q5_1 q8_0 iq4_nl q1_0 q2_0 tq2_0 mxfp4"
    assert set(ENCODED) == set(written.split())
    assert len(ENCODED) == 11
    once = "q2_K q3_K q4_K q5_K q6_K iq4_xs tq1_0 nvfp4"
    assert set(PREPARED) == set(once.split())
    assert not set(PREPARED) & set(ENCODED)


BITS = {  # a weight, as published with the formats
    "q4_0": 4.5,
    "q4_1": 5,
    "q5_0": 5.5,
    "q5_1": 6,
    "q8_0": 8.5,
    "q8_1": 9,
    "q8_K": 9.125,
    "q2_K": 2.625,
    "q3_K": 3.4375,
    "q4_K": 4.5,
    "q5_K": 5.5,
    "q6_K": 6.5625,
    "iq2_xxs": 2.0625,
    "iq2_xs": 2.3125,
    "iq2_s": 2.5625,
    "iq3_xxs": 3.0625,
    "iq3_s": 3.4375,
    "iq1_s": 1.5625,
    "iq1_m": 1.75,
    "iq4_nl": 4.5,
    "iq4_xs": 4.25,
    "tq1_0": 1.6875,
    "tq2_0": 2.0625,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
    "q1_0": 1.125,
    "q2_0": 2.25,
}


@pytest.mark.parametrize("name", QUANTISED)
def test_bits_a_weight_are_as_published(name: str) -> None:
    assert format_named(name).bits == BITS[name]


@pytest.mark.parametrize(
    ("name", "ratio"), [("q4_0", 7.11), ("q8_0", 3.76), ("iq2_xxs", 15.5), ("f16", 2), ("f32", 1)]
)
def test_ratio_is_to_f32(name: str, ratio: float) -> None:
    assert round(format_named(name).ratio, 2) == pytest.approx(ratio, abs=0.02)
