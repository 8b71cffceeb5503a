"""Which bindings compiled units touch, and which they may write."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.compile.accesses import Accesses, accesses
from vkbench_shaders.compile.launches import check
from vkbench_shaders.compile.spirv import Decoration, Op, read, write
from vkbench_shaders.launch import LaunchMismatch


def of(touched: set[int], written: set[int]) -> Accesses:
    return Accesses(touched=frozenset(touched), written=frozenset(written))


@pytest.mark.parametrize(
    ("key", "touched", "written"),
    [
        ("copy/copy", {0, 1}, {1}),
        ("pack_rows/pack_rows_a<q4_K,f16>", {0, 4}, {4}),
        ("pack_rows/pack_rows_b<f32,f16>", {1, 5}, {5}),
        ("pack_rows/pack_rows_a<iq2_xs,f16>", {0, 4, 15}, {4}),
        (
            "cooperative_product/coop_128x128_16x16x16<half,f32_sums,f32>",
            {0, 1, 2, 3, 4, 5},
            {2, 3},
        ),
    ],
)
def test_a_unit_tells_what_it_touches(
    bundle: Bundle, key: str, touched: set[int], written: set[int]
) -> None:
    assert accesses(bundle.code(key)) == of(touched, written)


def test_all_code_that_is_no_module_is_unknown(bundle: Bundle) -> None:
    code = bundle.code("copy/copy")
    cut = code[:20] + struct.pack("<I", 9 << 16 | Op.DECORATE) + code[20:24]
    assert [accesses(each) for each in (b"", code[:18], cut)] == [None] * 3


def test_code_that_reaches_buffers_by_address_is_unknown(bundle: Bundle) -> None:
    header, instructions, body = read(bundle.code("copy/copy"))
    changed = [(op, (5348, *ops[1:]) if op == 14 else ops) for op, ops in instructions]
    assert accesses(write(header, changed) + body) is None


def test_a_build_refuses_a_shader_that_may_write_an_input(bundle: Bundle) -> None:
    header, instructions, body = read(bundle.code("copy/copy"))
    kept = [
        (op, ops)
        for op, ops in instructions
        if not (op == Op.DECORATE and ops[1] == Decoration.NON_WRITABLE)
    ]
    code = write(header, kept) + body

    class Changed(Bundle):
        def code(self, key: str) -> bytes:
            return code if key == "copy/copy" else super().code(key)

    with pytest.raises(LaunchMismatch, match="is an input, and its shader may write to it"):
        check(Changed(text=bundle.text, blobs=bundle.blobs), [kernel_named("copy")])


def test_a_build_refuses_a_kernel_whose_output_no_shader_writes(bundle: Bundle) -> None:
    copy = kernel_named("copy")
    more = replace(copy.bindings[-1], name="more")
    kernel = replace(copy, bindings=(*copy.bindings, more))
    with pytest.raises(LaunchMismatch, match="no launch writes more"):
        check(bundle, [kernel])
