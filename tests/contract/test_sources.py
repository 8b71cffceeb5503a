"""Habits of the sources that a linter does not see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("vkbench", "shaders", "worker", "scheduler", "db", "local", "tables", "cli")
MODULES = sorted(path for part in PACKAGES for path in (ROOT / part).rglob("*.py"))
MOST_LINES = 400
EMPTY_NAMES = {"utils", "util", "helpers", "common", "misc", "manager", "base"}
ENVIRONMENT = re.compile(r"\bgetenv\b|\benviron(\[[^\]]*\](?!\s*=[^=])|\.get\b)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_sources_are_found() -> None:
    assert len({path.parts[len(ROOT.parts)] for path in MODULES}) == len(PACKAGES)


def test_a_module_is_a_noun_of_readable_length() -> None:
    assert [relative(path) for path in MODULES if path.stem in EMPTY_NAMES] == []
    lines = {relative(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_the_environment_is_read_in_settings_alone() -> None:
    readers = [relative(path) for path in MODULES if ENVIRONMENT.search(path.read_text())]
    assert readers == ["vkbench/settings.py"]


COMMAND_MODULES = [path for path in MODULES if path.is_relative_to(ROOT / "cli")]
PRINTING = ROOT / "cli/vkbench_cli/show/telling.py"
TAMING = ("visible", "visible_lines")


@pytest.mark.parametrize(
    "path", [*COMMAND_MODULES, ROOT / "worker/vkbench_worker/service/main.py"], ids=relative
)
def test_no_text_of_strangers_is_printed_as_it_is(path: Path) -> None:
    """Texts that are ours alone are constants; others go through words.visible or telling.py."""
    if path != PRINTING:
        assert [line for line, text in printed(path) if not is_tamed(text)] == []


def printed(path: Path) -> Iterator[tuple[int, ast.expr]]:
    """What a module gives to `print`, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id="print"), args=texts):
                yield from ((node.lineno, text) for text in texts)


def is_tamed(text: ast.expr) -> bool:
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name):
        return text.func.id in TAMING
    return isinstance(text, ast.Constant)
