"""Every item of the checklist has evidence that really shows it, or says why it is not here."""

from __future__ import annotations

import ast
import csv
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from vkbench_shaders.catalogue import KERNELS, kernel_named
from vkbench_shaders.kernel import Kernel

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "tests/gpu/test_catalogue.py"
ABSENT = "not here: "
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


def test_the_page_counts_what_is_shown() -> None:
    absent = sum(item["note"].startswith(ABSENT) for item in ITEMS)
    told = f"Of {len(ITEMS)} items {len(ITEMS) - absent} are shown and {absent} are not here."
    assert told in (ROOT / "docs/coverage.md").read_text()


def words_of(column: str) -> list[tuple[str, str]]:
    """The words of a column, each with the number of its item."""
    return [(item["number"], word) for item in ITEMS for word in item[column].split()]


def test_an_item_is_shown_or_is_not_here() -> None:
    """Never both, so that a reason does not stand beside something that seems to show it."""
    for item in ITEMS:
        is_shown = any(item[column] for column in ("kernels", "where", "command"))
        assert is_shown is not item["note"].startswith(ABSENT), item["number"]
        assert item["note"] != ABSENT.strip(), item["number"]


def test_kernels_of_an_item_are_in_the_sweep() -> None:
    for number, name in words_of("kernels"):
        kernel, _, fmt = name.partition(":")
        formats = swept_formats(kernel_named(kernel))
        assert not fmt or fmt in formats, number


def test_the_sweep_runs_every_kernel_in_every_format() -> None:
    """It takes KERNELS and all their type_choices(), and has a test of that."""
    shown = functions(SWEEP)["test_what_is_chosen_is_something_of_everything"]
    assert "KERNELS" in shown
    assert "kernel.type_choices()" in shown


def test_what_shows_an_item_mentions_it() -> None:
    for number, place in words_of("where"):
        source, _, word = place.partition("?")
        path, _, test = source.partition("::")
        assert word, f"{number}: {place} names no word to look for"
        text = functions(ROOT / path)[test] if test else (ROOT / path).read_text()
        assert word in text, f"{number}: {place}"


def test_a_test_is_named_and_not_its_file() -> None:
    for number, place in words_of("where"):
        source = place.partition("?")[0]
        assert source.startswith("tests/") is ("::test_" in source), f"{number}: {place}"


def test_commands_are_ours() -> None:
    """test_docs.py checks that they exist, with their options, since the page has them."""
    page = (ROOT / "docs/coverage.md").read_text()
    for command in filter(None, (item["command"] for item in ITEMS)):
        assert command.partition(" ")[0] in ("vkbench", "make")
        assert f"`{command}`" in page


def swept_formats(kernel: Kernel) -> set[str]:
    assert kernel in KERNELS
    return {fmt for types in kernel.type_choices() for fmt in types.values()}


@cache
def functions(path: Path) -> dict[str, str]:
    """The source of each test of a file, with that of the file's own names in it."""
    text = path.read_text()
    module = ast.parse(text)
    of_names = dict(defined(module, text))
    tests = (node for node in module.body if isinstance(node, ast.FunctionDef))
    return {test.name: "\n".join(with_names(test, text, of_names)) for test in tests}


def defined(module: ast.Module, text: str) -> Iterator[tuple[str, str]]:
    for node in module.body:
        source = ast.get_source_segment(text, node) or ""
        if isinstance(node, ast.FunctionDef):
            yield node.name, source
        for target in getattr(node, "targets", []):
            yield from (
                (name.id, source) for name in ast.walk(target) if isinstance(name, ast.Name)
            )


def with_names(test: ast.FunctionDef, text: str, of_names: Mapping[str, str]) -> Iterator[str]:
    yield from (ast.get_source_segment(text, mark) or "" for mark in test.decorator_list)
    yield ast.get_source_segment(text, test) or ""
    named = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    yield from (of_names[name] for name in sorted(named & of_names.keys()))
