"""docs/formats.md is what the table and the catalogue say now."""

from __future__ import annotations

from pathlib import Path

from vkbench_shaders.formats import FORMATS
from vkbench_shaders.formats_page import text

PAGE = Path(__file__).parents[2] / "docs/formats.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == text(), "python -m vkbench_shaders.formats_page > docs/formats.md"


def test_every_format_has_a_line() -> None:
    lines = PAGE.read_text().splitlines()
    for fmt in FORMATS:
        number = "–" if fmt.ggml is None else fmt.ggml
        [line] = [line for line in lines if line.startswith(f"| {fmt.name} | {number} |")]
        assert fmt.description in line
        assert f"| {fmt.elements} | {fmt.bytes} |" in line
