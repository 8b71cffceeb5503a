"""Packs as files: each declaration is short, is read without its sources, and is in a how-to."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench_shaders.own import declaration, references
from vkbench_shaders.own.packs import PACKS

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
MOST_LINES = 39


@pytest.mark.parametrize("pack", PACKS)
def test_declarations_are_short_and_read_without_sources(pack: str) -> None:
    files = sorted(PACKS[pack].glob("*.toml"))
    page = "ggml-shaders.md" if pack == "ggml-vulkan" else "others-shaders.md"
    text = (HOWTO / page).read_text()
    assert f"{len(files)} declarations of {pack}" in text
    for file in files:
        assert len(file.read_text().splitlines()) <= MOST_LINES, file.name
        declared = declaration.read(file, "somebody")
        assert declared.table.name == file.stem
        assert f"`{file.stem}`" in text
        assert bool(declared.table.shadows) != bool(references.function_of(declared)), file.name
