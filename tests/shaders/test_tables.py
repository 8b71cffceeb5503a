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
void reader(uint at : SV_GroupID) { y[at] = IQ3_S_GRID[at]; }
"""
DECLARATION = re.compile(r"public static const uint (\w+)\[(\d+)\] = \{(.*?)\};", re.DOTALL)


def parsed() -> dict[str, NDArray[np.uint32]]:
    found = {}
    for name, length, body in DECLARATION.findall(tables.text()):
        found[name] = np.array([int(word, 16) for word in body.split(",")], "<u4")
        assert len(found[name]) == int(length)
    return found


def grid(name: str) -> NDArray[np.float32]:
    kind = getattr(quants, name)
    kind.init_grid()
    return np.asarray(kind.grid).reshape(kind.grid_shape)


def test_these_tables_are_there() -> None:
    assert {name: len(words) for name, words in parsed().items()} == {
        "IQ2_XXS_GRID": 512,
        "IQ2_XS_GRID": 1024,
        "IQ2_S_GRID": 2048,
        "IQ3_XXS_GRID": 256,
        "IQ3_S_GRID": 512,
        "IQ1_GRID": 2048,
        "IQ4_NL_VALUES": 4,
        "MXFP4_VALUES": 4,
    }


@pytest.mark.parametrize("name", ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"])
def test_grids_are_gguf_s(name: str) -> None:
    stored = parsed()[f"{name}_GRID"].view(np.uint8)
    assert np.array_equal(stored.reshape(grid(name).shape), grid(name))


@pytest.mark.parametrize("name", ["IQ1_S", "IQ1_M"])
def test_both_one_bit_formats_have_one_grid(name: str) -> None:
    stored = parsed()["IQ1_GRID"].view(np.uint8).reshape(-1, 4).astype(int)
    values = np.concatenate([stored & 15, stored >> 4], axis=1) - 1
    assert np.array_equal(values, grid(name))


@pytest.mark.parametrize(
    ("table", "name"),
    [("IQ4_NL_VALUES", "IQ4_NL"), ("MXFP4_VALUES", "MXFP4"), ("MXFP4_VALUES", "NVFP4")],
)
def test_values_are_gguf_s(table: str, name: str) -> None:
    assert tuple(parsed()[table].view(np.int8)) == getattr(quants, name).kvalues


def test_the_eighth_sign_is_the_parity_of_the_seven_stored() -> None:
    signs = [seven | (seven.bit_count() & 1) << 7 for seven in range(128)]
    assert bytes(signs) == quants.IQ2_XXS.ksigns


def test_a_tree_without_tables_gets_gguf_s(tmp_path: Path) -> None:
    (tmp_path / "reader.slang").write_text(READER)
    made = tables.folder() / tables.FILE
    assert made.read_text() == tables.text()
    assert sources_of("reader", tmp_path) == [tmp_path / "reader.slang", made]
    code = compiler.find().compile(Unit(module="reader", entry="reader"), tmp_path)
    assert grid("IQ3_S")[-1].astype(np.uint8).tobytes() in code


def test_a_tree_s_own_tables_win(tmp_path: Path) -> None:
    (tmp_path / "reader.slang").write_text(READER)
    own = "module tables;\npublic static const uint IQ3_S_GRID[2] = { 0x12345678, 0x9abcdef0 };"
    (tmp_path / tables.FILE).write_text(own)
    assert include_path(tmp_path) == (tmp_path,)
    assert sources_of("reader", tmp_path) == [tmp_path / "reader.slang", tmp_path / tables.FILE]
    code = compiler.find().compile(Unit(module="reader", entry="reader"), tmp_path)
    assert (0x9ABCDEF0).to_bytes(4, "little") in code


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
