"""The documentation as a site: it builds without a warning, and loads nothing from another host."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from documented import first_question
from vkbench.settings import Settings
from vkbench_cli.table import COMMANDS
from vkbench_scheduler.planning.suites import SUITES
from vkbench_shaders.catalogue import KERNELS
from vkbench_web.app import application
from vkbench_web.lab import Lab

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\" >]+)")
LINKED = re.compile(r"<link\b[^>]*rel=\"?(?:stylesheet|icon|preload|preconnect)[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(site: Path, page: str) -> str:
    return (site / page / "index.html").read_text()


def test_no_page_loads_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text()
        loaded = [*LOADED.findall(text), *LINKED.findall(text)]
        assert loaded
        assert [each for each in loaded if "//" in each] == []
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert styles
    assert not any("url(http" in style or "@import" in style for style in styles)


def test_the_reference_has_all_that_the_code_has(site: Path) -> None:
    commands = text_of(site, "reference/commands")
    assert [row.name for row in COMMANDS if f"vkbench {row.name}</code>" not in commands] == []
    kernels = text_of(site, "reference/kernels")
    assert [kernel.name for kernel in KERNELS if f"<code>{kernel.name}</code>" not in kernels] == []
    suites = text_of(site, "suites")
    assert [suite.name for suite in SUITES if suite.name not in suites] == []
    settings = text_of(site, "reference/settings")
    names = Settings.__dataclass_fields__
    assert [name for name in names if f"VKBENCH_{name.upper()}" not in settings] == []
    addresses = application(Lab(Settings(host="here"))).openapi()["paths"]
    api = text_of(site, "reference/api")
    assert addresses
    assert [path for path in addresses if path not in api] == []
    assert "more</p>" not in kernels + settings  # no table is cut


def test_every_page_is_reached_from_the_navigation(site: Path) -> None:
    linked = text_of(site, ".")
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    apart = [page for page in pages if page.parts[0] in ("decisions", "results")]
    shown = [page.with_suffix("") for page in pages if page not in apart and page.stem != "index"]
    assert [page for page in shown if f'href="{page}/"' not in linked] == []


def test_the_search_finds_no_figures_of_results(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text())
    found = [each for each in index["docs"] if each["location"].startswith("results/")]
    assert len(found) >= 7  # a page each: its title and its introduction
    assert [each["location"] for each in found if "#" in each["location"]] == []
    assert [each["location"] for each in found if len(each["text"]) > 4000] == []
    assert not any("mul_mat_vec/q4_0/m4096_n1_k14336 " in each["text"] for each in found)


def test_pages_made_from_the_code_begin_with_a_question() -> None:
    made = runpy.run_path(str(ROOT / "scripts/docs_site.py"))["PAGES"]
    of_code = {name: page() for name, page in made.items() if name != "architecture.md"}
    assert len(of_code) > 4
    assert [name for name, text in of_code.items() if not first_question(text)] == []
