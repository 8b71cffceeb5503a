"""Habits of the sources that a linter does not see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("vkbench", "shaders", "worker", "scheduler", "db", "cli")
MODULES = sorted(path for part in PACKAGES for path in (ROOT / part).rglob("*.py"))
MOST_LINES = 400
EMPTY_NAMES = {"utils", "util", "helpers", "common", "misc", "manager", "base"}
ENVIRONMENT = re.compile(r"\bgetenv\b|\benviron(\[[^\]]*\](?!\s*=[^=])|\.get\b)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_sources_are_found() -> None:
    assert len({path.parts[len(ROOT.parts)] for path in MODULES}) == len(PACKAGES)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_is_a_noun_of_readable_length(path: Path) -> None:
    assert path.stem not in EMPTY_NAMES
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_the_environment_is_read_in_settings_alone(path: Path) -> None:
    if path != ROOT / "vkbench" / "settings.py":
        assert not ENVIRONMENT.search(path.read_text())
