"""The text of docs/formats.md, which `make pages` writes from the table of formats."""

from __future__ import annotations

from vkbench_shaders.families import families, formats_in_use
from vkbench_shaders.formats import FORMATS, Format

_HEAD = """\
# Storage formats

Written by `make pages` from the table in
`shaders/vkbench_shaders/formats.py` and the catalogue; a test compares. Layouts are those of GGML,
byte for byte. Bits are per weight, scales and minima included; the ratio is how many times smaller
than f32 a format is. `vkbench kernels --formats` prints the same with --json or --csv, and
`vkbench kernels --grid` says which code path each device takes.

| format | GGML type | block | bytes | bits | ratio | what a block holds |
|---|--:|--:|--:|--:|--:|---|
"""

_FAMILIES = """
## What can be done with each

A mark is a kernel of the catalogue, with f32, f16 or q8_1 vectors x where it says so.

"""


def text() -> str:
    """Markdown of the page about formats."""
    return _HEAD + "".join(map(_line, FORMATS)) + _FAMILIES + _matrix()


def _line(fmt: Format) -> str:
    size = f"{fmt.elements} | {fmt.bytes} | {fmt.bits:g} | {fmt.ratio:.2f}"
    number = "–" if fmt.ggml is None else fmt.ggml
    return f"| {fmt.name} | {number} | {size} | {fmt.description} |\n"


def _matrix() -> str:
    columns = families()
    head = f"| format | {' | '.join(family.name for family in columns)} |\n"
    rule = "|---|" + ":-:|" * len(columns) + "\n"
    return head + rule + "".join(map(_marks, formats_in_use()))


def _marks(fmt: Format) -> str:
    marks = ("✓" if family.types(fmt.name) else "–" for family in families())
    return f"| {fmt.name} | {' | '.join(marks)} |\n"
