"""The formats table against gguf's, and what its rows say of arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from vkbench.errors import UnknownName
from vkbench_shaders.build import TREE
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.formats import FORMATS, Format, format_named

# gguf gives q8_1 two singles for its scales, ggml's has two halves; it does not know q2_0 yet
OTHERWISE_IN_GGUF = {"q8_1": (32, 40)}
UNKNOWN_TO_GGUF = {"q2_0"}


def test_all_live_types_are_there() -> None:
    assert len(FORMATS) == 35
    assert len({fmt.name for fmt in FORMATS}) == 35
    assert len({fmt.ggml for fmt in FORMATS}) == 35


def test_gguf_knows_no_other_type() -> None:
    known = {kind.name.lower() for kind in GGMLQuantizationType}
    assert known | UNKNOWN_TO_GGUF == {fmt.name.lower() for fmt in FORMATS}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_numbers_and_sizes_are_gguf_s(fmt: Format) -> None:
    if fmt.name in UNKNOWN_TO_GGUF:
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
    assert fmt.quantised == (fmt.dtype == np.uint8)
    assert fmt.description


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
    source = (TREE / "formats.slang").read_text()
    for types in kernel.type_choices():
        for variant in kernel.variants:
            for name in set(variant.arguments(types)) & {fmt.name for fmt in FORMATS}:
                fmt = format_named(name)
                body = re.search(
                    rf"public struct {name} : IFormat\n\{{(.*?)\n\}}", source, re.DOTALL
                )
                assert body, f"no struct {name}"
                assert f"BLOCK = {fmt.elements};" in body[1]
                assert f"BYTES = {fmt.bytes};" in body[1]
