"""Pages that are made from the code say what the code says: modules, suites, views and formats."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vkbench_scheduler.planning.suites import SUITES

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
APART = ("CHANGELOG.md", "suites.md")  # what was, and the page that is made of the suites
MODULE = re.compile(r"^\| \[`\w+\.py`\]\(\.\./(\S+)\) \|", re.MULTILINE)
# the name of a suite and a duration in one sentence, or in one row of a table
DURATION = re.compile(
    rf"`({'|'.join(suite.name for suite in SUITES)})`(?:[^.|]|\.(?! ))*"
    r"\b(?:second|minute|hour)s?\b(?! after)"
)


def test_pages_are_what_their_sources_say() -> None:
    command = [sys.executable, str(ROOT / "scripts/pages.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_modules_lists_each_module_once() -> None:
    listed = MODULE.findall((ROOT / "docs/modules.md").read_text())
    folders = [path.parent for path in ROOT.glob("*/vkbench*/__init__.py")]
    paths = {path for folder in [ROOT / "vkbench", *folders] for path in folder.rglob("*.py")}
    modules = {str(path.relative_to(ROOT)) for path in paths if path.name != "__init__.py"}
    assert len(modules) > 600
    assert modules <= set(listed)
    assert len(set(listed)) == len(listed)
    assert [path for path in listed if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_only_suites_say_how_long_they_take(page: Path) -> None:
    text = " ".join(page.read_text().split())
    assert page.name in APART or DURATION.search(text) is None


def test_descriptions_of_suites_leave_durations_to_their_field() -> None:
    said = [suite.name for suite in SUITES if re.search("minute|second|hour", suite.description)]
    assert said == []
    assert [suite.name for suite in SUITES if suite.takes][:2] == ["quick", "spine"]
