"""Every item of the checklist has a kernel, a place that shows it, or a reason."""

from __future__ import annotations

import ast
import csv
import subprocess
import sys
from pathlib import Path

import pytest

from vkbench_shaders.catalogue import kernel_named

ROOT = Path(__file__).parents[2]
with (ROOT / "docs/coverage.csv").open(newline="") as lines:
    ITEMS = list(csv.DictReader(lines, delimiter="|"))


def test_the_checklist_is_whole() -> None:
    assert [item["number"] for item in ITEMS] == [str(number) for number in range(1, 326)]
    assert all(item["item"] for item in ITEMS)


def test_the_page_is_the_checklist_s() -> None:
    """`python scripts/coverage_page.py > docs/coverage.md` makes it again."""
    command = [sys.executable, str(ROOT / "scripts/coverage_page.py")]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (ROOT / "docs/coverage.md").read_text() == made


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["number"])
def test_what_an_item_names_exists(item: dict[str, str]) -> None:
    assert item["kernels"] or item["where"]
    assert item["note"] or item["where"] != "-"
    for name in item["kernels"].split():
        kernel, _, fmt = name.partition(":")
        known = {t for binding in kernel_named(kernel).bindings for t in binding.types}
        assert not fmt or fmt in known
    for place in item["where"].removeprefix("-").split():
        path, _, test = place.partition("::")
        assert (ROOT / path).is_file()
        assert not test or test in _functions(ROOT / path)


def _functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
