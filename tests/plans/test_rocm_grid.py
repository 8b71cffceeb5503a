"""The ROCm grid: 123 names, each a case and compiled code here."""

from __future__ import annotations

import pytest

from plans.rocm_grid import GRID, RocmKernel, table
from vkbench_shaders.bundle import unit_of
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.compile.build import units_of

TEN = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"]
UNITS = set(units_of(KERNELS))


def test_the_names_are_those_of_the_grid() -> None:
    names = {each.name for each in GRID}
    assert len(GRID) == len(names) == 123
    assert names == {
        "quantize_q8_1",
        *(f"dequantize_block_{fmt}_{y}" for fmt in [*TEN, "q8_K"] for y in ("f32", "f16")),
        *(f"dequantize_mul_mat_vec_{fmt}" for fmt in TEN),
        *(f"mul_mat_vec_{fmt}_q8_1_hip{b}" for fmt in TEN for b in range(1, 9)),
        *(f"mul_mat_{fmt}" for fmt in TEN),
    }


@pytest.mark.parametrize("each", GRID, ids=lambda each: each.name)
def test_each_is_a_case_and_a_unit(each: RocmKernel) -> None:
    posed = problem(each.case.name)
    assert posed.case == each.case
    assert each.format in posed.types.values()
    assert each.variants
    assert each.variants[-1].requires == ()
    for variant in each.variants:
        assert unit_of(variant, posed.types) in UNITS


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("dequantize_block_q4_K_f16", "dequantize/q4_K:y=f16/m4096_k14336"),
        ("dequantize_mul_mat_vec_q5_0", "mul_mat_vec/q5_0/m4096_n1_k14336"),
        ("mul_mat_vec_q6_K_q8_1_hip7", "mul_mat_vec/q6_K:x=q8_1/m4096_n7_k14336"),
        ("mul_mat_q2_K", "mul_mat/q2_K:x=q8_1/m4096_n512_k14336"),
    ],
)
def test_some_in_full(name: str, case: str) -> None:
    [each] = [each for each in GRID if each.name == name]
    assert each.case.name == case


def test_the_table_has_their_cases() -> None:
    rows = {row["name"]: row for row in table().rows}
    assert len(rows) == 123
    assert rows["mul_mat_vec_q4_0_q8_1_hip8"]["n"] == 8
    assert str(rows["mul_mat_vec_q4_0_q8_1_hip8"]["case"]).startswith("mul_mat_vec/q4_0:x=q8_1/")


def test_integer_products_come_first() -> None:
    for each in GRID:
        if each.types.get("x") == "q8_1":
            assert {"int_dot", "int8"} & set(each.variants[0].requires)  # dot or matrices of bytes
