"""Documentation names what exists: every command, their options, make targets, files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vkbench_cli.main import load
from vkbench_cli.table import COMMANDS, Command
from vkbench_scheduler.planning.suites import SUITES
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.formats import FORMATS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(vkbench [^`]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
PATH = re.compile(r"`((?:\w[\w.]*/)+[\w.]*)`")


def prompts(page: Path) -> list[str]:
    """What a page says to type: lines after a prompt, and `vkbench ...` within the text."""
    text = page.read_text()
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    typed = [line[2:].partition("  #")[0] for line in lines if line.startswith("$ ")]
    return typed + INLINE.findall(text)


def words_after_vkbench(line: str) -> list[str]:
    words = shlex.split(line)
    return words[words.index("vkbench") + 1 :] if "vkbench" in words else []


TYPED = [(page.name, line) for page in PAGES for line in prompts(page)]
OURS = [(page, line) for page, line in TYPED if words_after_vkbench(line)]


def options_of(row: Command) -> set[str]:
    """Every option of a command and of the commands below it."""
    params = [param for command in with_commands_below(load(row)) for param in command.params]
    return {name for param in params for name in (*param.opts, *param.secondary_opts)}


def with_commands_below(command: Any) -> Iterator[Any]:
    """A command, and all that its groups hold."""
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from with_commands_below(below)


def test_prompts_are_found() -> None:
    assert len(OURS) > 10


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [row.name for row in COMMANDS if f"`{row.name}`" not in text] == []


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_options_that_are_typed_exist(row: Command) -> None:
    known = options_of(row) | {"--help"}
    for page, line in OURS:
        first, *rest = words_after_vkbench(line)
        if first == row.name:
            options = {word.partition("=")[0] for word in rest if word.startswith("--")}
            assert options <= known, (page, line)


def test_commands_that_are_typed_exist() -> None:
    names = {row.name for row in COMMANDS}
    firsts = [(page, words_after_vkbench(line)[0]) for page, line in OURS]
    commands = [each for each in firsts if not each[1].startswith("-") and "..." not in each[1]]
    assert [each for each in commands if each[1] not in names] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_links_and_paths_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    typed = [line for _, line in TYPED if line.startswith("make ")]
    named = {line.split()[1] for line in [*typed, *re.findall(r"`(make [a-z]+)", text)]}
    assert named <= targets
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_developers_read_exist(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text())
    assert len(named) > 20
    folders = (ROOT, ROOT / "shaders/vkbench_shaders")
    real = [path for path in named if "NNNN" not in path]
    assert [path for path in real if not any((f / path).exists() for f in folders)] == []


def test_tests_that_hold_a_decision_exist() -> None:
    texts = [page.read_text() for page in (ROOT / "docs/decisions").glob("*.md")]
    named = {path for text in texts for path in PATH.findall(text) if path.startswith("tests/")}
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


TERM = re.compile(r"^\| ([\w ]+) \| .+ \| `(\S+\.py)` \|$", re.MULTILINE)
TERMS = TERM.findall((ROOT / "docs/glossary.md").read_text())


def test_terms_are_found_and_none_twice() -> None:
    names = [term for term, _ in TERMS]
    rows = (ROOT / "docs/glossary.md").read_text().count("\n| ") - 4  # headings of four tables
    assert len(names) == rows >= 40
    assert len(set(names)) == len(names)


def test_a_term_is_used_by_the_module_that_owns_it() -> None:
    texts = {module: (ROOT / module).read_text() for _, module in TERMS}
    unused = [
        (term, module)
        for term, module in TERMS
        if not re.search(rf"\b{term}", texts[module], re.IGNORECASE)
    ]
    assert unused == []


def test_all_that_can_be_chosen_is_described() -> None:
    described = {
        **{kernel.name: kernel.description for kernel in KERNELS},
        **{fmt.name: fmt.description for fmt in FORMATS},
        **{suite.name: suite.description for suite in SUITES},
    }
    assert [name for name, words in described.items() if len(words.split()) < 2] == []
