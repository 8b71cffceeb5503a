"""docs/formats.md has a line for each format; tests/contract/test_pages.py holds it current."""

from __future__ import annotations

from pathlib import Path

from vkbench_shaders.formats import FORMATS

PAGE = Path(__file__).parents[2] / "docs/formats.md"


def test_every_format_has_a_line() -> None:
    lines = PAGE.read_text().splitlines()
    for fmt in FORMATS:
        number = "–" if fmt.ggml is None else fmt.ggml
        [line] = [line for line in lines if line.startswith(f"| {fmt.name} | {number} |")]
        assert fmt.description in line
        assert f"| {fmt.elements} | {fmt.bytes} |" in line
