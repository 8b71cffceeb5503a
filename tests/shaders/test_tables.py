"""The lookup tables against gguf's, read back from the generated source; and how trees get them."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from gguf import quants
from numpy.typing import NDArray

from vkbench.settings import settings
from vkbench_shaders import compiler, tables
from vkbench_shaders.build import sources_of
from vkbench_shaders.compiler import Unit, include_path

READER = """
import tables;
[[vk::binding(0)]] RWStructuredBuffer<uint> y;
[shader("compute")] [numthreads(1, 1, 1)]
void reader(uint at : SV_GroupID) { y[at] = IQ3_S_GRID[7][at]; }
"""
DECLARATION = re.compile(r"public static const uint (\w+)((?:\[\d+\])+) = \{(.*?)\};", re.DOTALL)


def parsed() -> dict[str, NDArray[np.uint32]]:
    return {
        name: np.array([int(word, 16) for word in re.findall(r"0x\w+", body)], "<u4").reshape(
            [int(size) for size in re.findall(r"\d+", sizes)]
        )
        for name, sizes, body in DECLARATION.findall(tables.text())
    }


def grid(name: str) -> NDArray[np.float32]:
    kind = getattr(quants, name)
    kind.init_grid()
    return np.asarray(kind.grid).reshape(kind.grid_shape)


def test_these_tables_are_there() -> None:
    assert {name: words.shape for name, words in parsed().items()} == {
        "IQ2_XXS_GRID": (8, 16),
        "IQ2_XS_GRID": (16, 16),
        "IQ2_S_GRID": (32, 16),
        "IQ3_XXS_GRID": (8, 16),
        "IQ3_S_GRID": (16, 16),
        "IQ1_GRID": (64, 16),
        "IQ4_NL_VALUES": (4,),
    }


@pytest.mark.parametrize(
    ("table", "name", "values"),
    [
        ("IQ2_XXS_GRID", "IQ2_XXS", (8, 25, 43)),
        ("IQ2_XS_GRID", "IQ2_XS", (8, 25, 43)),
        ("IQ2_S_GRID", "IQ2_S", (8, 25, 43)),
        ("IQ3_XXS_GRID", "IQ3_XXS", (4, 12, 20, 28, 36, 44, 52, 62)),
        ("IQ3_S_GRID", "IQ3_S", (1, 3, 5, 7, 9, 11, 13, 15)),
        ("IQ1_GRID", "IQ1_S", (-1, 0, 1)),
        ("IQ1_GRID", "IQ1_M", (-1, 0, 1)),
    ],
)
def test_grids_are_gguf_s(table: str, name: str, values: tuple[int, ...]) -> None:
    entries = parsed()[table].reshape(-1).view(np.uint16)[:, None]
    length = grid(name).shape[1]
    codes = entries >> (16 // length * np.arange(length)) & (3 if length == 8 else 15)
    assert np.array_equal(np.array(values)[codes], grid(name))


def test_iq4_nl_s_values_are_gguf_s() -> None:
    assert tuple(parsed()["IQ4_NL_VALUES"].view(np.int8)) == quants.IQ4_NL.kvalues


def test_the_eighth_sign_is_the_parity_of_the_seven_stored() -> None:
    signs = [seven | (seven.bit_count() & 1) << 7 for seven in range(128)]
    assert bytes(signs) == quants.IQ2_XXS.ksigns


def test_a_tree_without_tables_gets_gguf_s(tmp_path: Path) -> None:
    (tmp_path / "reader.slang").write_text(READER)
    made = tables.folder() / tables.FILE
    assert made.read_text() == tables.text()
    assert sources_of("reader", tmp_path) == [tmp_path / "reader.slang", made]
    code = compiler.find().compile(Unit(module="reader", entry="reader"), tmp_path)
    assert parsed()["IQ3_S_GRID"][7, -1].tobytes() in code


def test_a_tree_s_own_tables_win(tmp_path: Path) -> None:
    (tmp_path / "reader.slang").write_text(READER)
    rows = ", ".join(f"{{ 0x9abcdef{row} }}" for row in range(8))
    own = f"module tables;\npublic static const uint IQ3_S_GRID[8][1] = {{ {rows} }};"
    (tmp_path / tables.FILE).write_text(own)
    assert include_path(tmp_path) == (tmp_path,)
    assert sources_of("reader", tmp_path) == [tmp_path / "reader.slang", tmp_path / tables.FILE]
    code = compiler.find().compile(Unit(module="reader", entry="reader"), tmp_path)
    assert (0x9ABCDEF7).to_bytes(4, "little") in code


def test_without_gguf_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setenv("VKBENCH_CACHE", str(tmp_path))
    settings.cache_clear()
    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(tables.MissingTables, match="pip install gguf"):
        include_path(tmp_path)
