"""Families are the catalogue's: every format of every kernel that is about blocks, and no other."""

from __future__ import annotations

import pytest

from vkbench_shaders import formats
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.families import Family, families, formats_in_use, formats_page
from vkbench_shaders.formats import format_named

BY_NAME = {family.name: family for family in families()}


def test_kernels_about_blocks_have_families_and_others_none() -> None:
    found = {family.kernel.name for family in BY_NAME.values()}
    holding = {  # those that round to one format alone offer no choice
        kernel.name
        for kernel in KERNELS
        for b in kernel.bindings
        if sum(format_named(fmt).quantised for fmt in b.types) > 1
    }
    assert found == holding > {"dequantize", "mul_mat", "flash_attn"}


def test_products_have_one_for_each_format_of_their_vectors() -> None:
    for kernel in ("mul_mat_vec", "mul_mat"):
        names = [name for name in BY_NAME if name.partition(":")[0] == kernel]
        assert names == [f"{kernel}:x={x}" for x in ("f32", "f16", "q8_1", "q8_0")]


@pytest.mark.parametrize("family", BY_NAME.values(), ids=BY_NAME)
def test_what_a_family_says_of_a_format_is_the_kernel_s_word(family: Family) -> None:
    for fmt in formats_in_use():
        types = family.types(fmt.name)
        if types is None:
            assert not family.variants(fmt.name)
            assert not family.cases(fmt.name)
            continue
        assert types in list(family.kernel.type_choices())
        assert types[family.binding] == fmt.name
        assert family.variants(fmt.name)[-1].requires == ()
        assert family.cases(fmt.name), f"{family.name} lists no case for {fmt.name}"
        assert all(problem(case).types == types for case in family.cases(fmt.name))


TABLE = {  # what each family is for, at least
    "dequantize": formats.QUANTISED,
    "mul_mat_vec:x=f32": (*formats.WEIGHTS, *formats.PLAIN),
    "mul_mat_vec:x=f16": (*formats.WEIGHTS, *formats.PLAIN),
    "mul_mat_vec:x=q8_1": formats.WEIGHTS,
    "mul_mat:x=f32": (*formats.WEIGHTS, *formats.PLAIN),
    "mul_mat:x=q8_1": formats.WEIGHTS,
    **{f"{name}:x=q8_0": ("q4_0",) for name in ("mul_mat_vec", "mul_mat")},
    "mul_mat_vec_id:x=f32": (*formats.WEIGHTS, *formats.PLAIN),
    "mul_mat_id:x=f32": (*formats.WEIGHTS, *formats.PLAIN),
    "get_rows": (*formats.WEIGHTS, *formats.PLAIN, "i32"),
    "quantize": (*formats.ENCODED, *formats.PREPARED, "f16", "bf16"),
    "set_rows": (*formats.ENCODED, "f16", "bf16"),
    "copy_from": (*formats.ENCODED, "f16", "bf16"),
}


@pytest.mark.parametrize("name", list(TABLE))
def test_every_cell_of_the_table_is_there(name: str) -> None:
    lacking = [fmt for fmt in TABLE[name] if not BY_NAME[name].types(fmt)]
    assert lacking == []


def test_the_page_has_a_line_for_every_format() -> None:
    lines = formats_page().splitlines()
    for fmt in formats.FORMATS:
        number = "–" if fmt.ggml is None else fmt.ggml
        [line] = [line for line in lines if line.startswith(f"| {fmt.name} | {number} |")]
        assert fmt.description in line
        assert f"| {fmt.elements} | {fmt.bytes} |" in line
