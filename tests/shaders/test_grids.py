"""Lookup tables are gguf's, packed as the shaders read them."""

import numpy as np
import pytest
from gguf import quants

from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import FORMATS, format_named
from vkbench_shaders.quantisers import grids

TABLES = sorted({fmt.grid for fmt in FORMATS if fmt.grid})
ENTRIES = {
    "IQ1_S": (2048, 8),
    "IQ2_XXS": (256, 8),
    "IQ2_XS": (512, 8),
    "IQ2_S": (1024, 8),
    "IQ3_XXS": (256, 4),
    "IQ3_S": (512, 4),
}


def entries(grid: str) -> np.ndarray:
    source = getattr(quants, grid)
    source.init_grid()
    return np.asarray(source.grid.reshape(ENTRIES[grid]))


@pytest.mark.parametrize("grid", sorted(ENTRIES.keys() - {"IQ1_S"}))
def test_a_grid_is_its_values_four_a_word(grid: str) -> None:
    values = grids.words(grid).view(np.int8).reshape(ENTRIES[grid])
    assert np.array_equal(values, entries(grid))


def test_a_ternary_word_has_eight_values() -> None:
    words = grids.words("IQ1_S")
    assert words.size == 2048
    for word, row in zip(words[::97], entries("IQ1_S")[::97], strict=True):
        low = [(int(word) >> 8 * i & 15) - 1 for i in range(4)]
        high = [(int(word) >> 8 * i + 4 & 15) - 1 for i in range(4)]
        assert [*low, *high] == row.tolist()


def test_the_table_of_16_values_is_signed_bytes() -> None:
    assert grids.words("IQ4_NL").view(np.int8).tolist() == list(quants.IQ4_NL.kvalues)


def test_tables_cover_the_formats_and_fit_beside_a_tile() -> None:
    assert {*TABLES} == {*ENTRIES, "IQ4_NL"}
    assert all(grids.words(name).nbytes <= 8192 for name in TABLES)


def test_a_problem_has_its_formats_table() -> None:
    posed = problem("mul_mat_vec/iq1_m/m5_n2_k512")
    assert format_named("iq1_m").grid == "IQ1_S"
    assert grids.table(posed) is grids.words("IQ1_S")
    assert grids.table(problem("mul_mat_vec/q4_0/m5_n2_k512")) is None
    assert len(posed.kernel.bindings) <= grids.BINDING


def test_the_eighth_sign_makes_their_number_even() -> None:
    signs = np.asarray(quants.IQ2_XXS.ksigns if hasattr(quants.IQ2_XXS, "ksigns") else [])
    stored = np.frombuffer(bytes(signs), np.uint8)
    assert stored.size == 128
    for seven, eight in enumerate(stored.tolist()):
        assert eight == seven | (bin(seven).count("1") & 1) << 7
