"""Every item of the checklist has evidence that really shows it, or says why it is not here."""

from __future__ import annotations

import ast
import csv
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from plans.checklist import ABSENT, ROWS, table
from vkbench_cli import table as table_of_commands
from vkbench_cli.main import load
from vkbench_shaders.catalogue import KERNELS, kernel_named
from vkbench_shaders.kernel import Kernel

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "tests/gpu/test_catalogue.py"
with ROWS.open(newline="") as lines:
    ITEMS = list(csv.DictReader(lines, delimiter="|"))


def test_the_checklist_is_whole() -> None:
    assert [item["number"] for item in ITEMS] == [str(number) for number in range(1, 326)]
    assert all(item["item"] for item in ITEMS)


def test_the_table_counts_what_is_shown() -> None:
    standings = Counter(row["standing"] for row in table().rows)
    absent = sum(item["note"].startswith(ABSENT) for item in ITEMS)
    assert standings == {"shown": len(ITEMS) - absent, "not here": absent}


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


def test_figures_beside_torch_are_those_of_its_page() -> None:
    """A remark that says 0.77 times torch has to be written anew when the page is."""
    told = set()
    for item in ITEMS:
        pages = re.findall(r"docs/results/\S*torch\.md", item["where"])
        text = "".join((ROOT / page).read_text() for page in pages)
        for figure in re.findall(r"\d+\.\d+", item["note"] if pages else ""):
            told.add(item["number"])
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", text), item["number"]
    assert told == {"165", "279", "280"}


def test_what_has_no_bf16_is_named() -> None:
    [note] = (item["note"] for item in ITEMS if item["item"] == "dtype BF16")
    halves, brains = (
        {kernel.name for kernel in KERNELS if fmt in swept_formats(kernel)}
        for fmt in ("f16", "bf16")
    )
    assert set(re.findall(r"`(\w+)`", note)) == halves - brains


def test_a_test_is_named_and_not_its_file() -> None:
    for number, place in words_of("where"):
        source = place.partition("?")[0]
        assert source.startswith("tests/") is ("::test_" in source), f"{number}: {place}"


COMMANDS = sorted({item["command"] for item in ITEMS if item["command"]})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist_with_their_options(command: str) -> None:
    program, first, *rest = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{first}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert program == "vkbench"
    [row] = [row for row in table_of_commands.COMMANDS if row.name == first]
    loaded = load(row)
    below = getattr(loaded, "commands", {}).values()
    options = {name for one in (loaded, *below) for param in one.params for name in param.opts}
    assert {word for word in rest if word.startswith("--")} <= options


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
