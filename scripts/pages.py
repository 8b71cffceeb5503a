"""Writes what is made from the code: the pages of docs/, and the manifest of the kernels.

`make pages` writes them; `python scripts/pages.py --check`, as in `make check`, names those that
differ from their sources.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from vkbench.words.markdown import table
from vkbench_db.ask.sql.view_columns import MEANINGS
from vkbench_scheduler.planning.suites import SUITES
from vkbench_shaders.bundle import packaged
from vkbench_shaders.compile.first_need import EXPECTED, read_expected, write_expected
from vkbench_shaders.families import formats_page
from vkbench_shaders.models.architectures import ARCHITECTURES, MISSING, features_of

ROOT = Path(__file__).resolve().parents[1]
MOST = 1000  # rows: no table is cut
PACKAGES = (
    "vkbench",
    "shaders/vkbench_shaders",
    "scheduler/vkbench_scheduler",
    "worker/vkbench_worker",
    "db/vkbench_db",
    "db/vkbench_detection",
    "local/vkbench_local",
    "tables/vkbench_tables",
    "cli/vkbench_cli",
    "web/vkbench_web",
    "plans",
    "benchmarks",
    "scripts",
)
FOLDERS = {  # those without a docstring of their own
    "benchmarks": "Measures vkbench itself.",
    "benchmarks/results": "Writes the pages of docs/results from the exports that lie there.",
    "db/vkbench_db/migrations/versions": "The steps from one schema to the next, in their order.",
    "scripts": "Chores in Python; the Makefile names the others.",
}
MODULES = """\
# Modules

Which module does what, in one line each? `make pages` writes this page from the first line of
each module. [ARCHITECTURE](../ARCHITECTURE.md) says how they work together.
"""
SUITES_HEAD = """\
# Suites

Which cases does a suite have, and how long does it take? `make pages` writes this page from
`scheduler/vkbench_scheduler/planning/suites.py`.
`vkbench run --suite NAME` runs one on this machine, `vkbench submit --suite NAME --device SELECTOR`
on the fleet. The times are those of two CPU cores with Mesa's CPU driver, unless another device is
named; kernels are compiled before. Nobody has timed the suites that have none.

"""


def modules() -> str:
    """Every module with the first line of its docstring, folder by folder."""
    rows = [[f"[`{name}`](#{Path(name).name})", first_line(name)] for name in PACKAGES]
    folders = {
        str(path.parent.relative_to(ROOT)): package
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    parts = [MODULES, table(["package", "what it is"], rows), *map(section, folders)]
    return "\n".join(parts)


def section(folder: str) -> str:
    """The heading, the purpose and the modules of a folder."""
    name = folder.partition("/")[2] if "/vkbench_" in folder else folder
    paths = sorted(path for path in (ROOT / folder).glob("*.py") if path.stem != "__init__")
    rows = [
        [f"[`{path.name}`](../{folder}/{path.name})", first_line(f"{folder}/{path.name}")]
        for path in paths
    ]
    listed = "\n" + table(["module", "what it does"], rows, most=MOST) if rows else ""
    return f"{'###' if '/' in name else '##'} {name}\n\n{first_line(folder)}\n{listed}"


def first_line(name: str) -> str:
    """The first line of the docstring of a module or a folder."""
    if name in FOLDERS:
        return FOLDERS[name]
    path = ROOT / name
    source = (path if path.is_file() else path / "__init__.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].replace("|", "\\|")


def suites() -> str:
    """Every suite, and how long it takes."""
    rows = [[f"`{suite.name}`", suite.description, suite.takes] for suite in SUITES]
    return SUITES_HEAD + table(["suite", "what it has", "how long it takes"], rows)


def views() -> str:
    """docs/views.md, with the tables of columns that the views have now."""
    page = (ROOT / "docs/views.md").read_text()
    place = re.compile(r"(<!-- columns of (\w+) -->\n\n)(?:\|.*\n)*")
    return place.sub(lambda found: found[1] + columns(found[2]), page)


def write_architectures() -> str:
    """docs/howto/models.md, with the tables of architectures that are supported and refused."""
    supported = [
        [f"`{name}`", architecture.models, ", ".join(features_of(architecture))]
        for name, architecture in ARCHITECTURES.items()
    ]
    needs = [
        [", ".join(f"`{name}`" for name, _ in group), missing]
        for missing, group in groupby(MISSING.items(), lambda pair: pair[1])
    ]
    tables = {
        "architectures": table(["architecture", "models", "what it has besides"], supported),
        "refused": table(["architectures that are refused", "what they need"], needs, most=MOST),
    }
    page = (ROOT / "docs/howto/models.md").read_text()
    place = re.compile(r"(<!-- (architectures|refused) -->\n\n)(?:\|.*\n)*\n?")
    return place.sub(lambda found: f"{found[1]}{tables[found[2]]}\n", page)


def columns(view: str) -> str:
    """The columns of a view as a table; neighbours that mean the same share a row."""
    rows = [
        [", ".join(f"`{name}`" for name, _ in group), meaning]
        for meaning, group in groupby(MEANINGS[view].items(), lambda column: column[1])
    ]
    return table(["column", "what it holds"], rows, most=MOST)


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/modules.md": modules,
    "docs/suites.md": suites,
    "docs/views.md": views,
    "docs/howto/models.md": write_architectures,
    "docs/formats.md": formats_page,
}


def main() -> None:
    """Write the pages; with --check, only say which of them differ."""
    differing = []
    for name, made in PAGES.items():
        page, text = ROOT / name, made()
        if not page.exists() or page.read_text() != text:
            differing.append(name)
            if "--check" not in sys.argv:
                page.write_text(text)
    manifest = packaged().text
    if read_expected() != manifest:
        differing.append(EXPECTED.name)
        if "--check" not in sys.argv:
            write_expected(manifest)
    if differing and "--check" in sys.argv:
        sys.exit(f"{', '.join(differing)}: the code says otherwise; `make pages` writes them anew")


if __name__ == "__main__":
    main()
