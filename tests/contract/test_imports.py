"""Imports go down only: pyproject.toml's contracts hold, no circle exists, chains stay short."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Folder of each package, and the most modules of it that one chain of imports may pass. Lower a
# number when a package becomes flatter; STYLE's aim is eight.
CHAINS = {
    "vkbench": ("vkbench", 4),
    "vkbench_shaders": ("shaders/vkbench_shaders", 11),
    "vkbench_worker": ("worker/vkbench_worker", 11),
    "vkbench_db": ("db/vkbench_db", 7),
    "vkbench_detection": ("db/vkbench_detection", 7),
    "vkbench_scheduler": ("scheduler/vkbench_scheduler", 7),
    "vkbench_local": ("local/vkbench_local", 6),
    "vkbench_tables": ("tables/vkbench_tables", 3),
    "vkbench_web": ("web/vkbench_web", 9),
    "vkbench_cli": ("cli/vkbench_cli", 6),
}
WHOLE_CHAIN = 21  # across all packages: seven layers, one below another

Graph = Mapping[str, frozenset[str]]


def module_name(package: str, folder: Path, path: Path) -> str:
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join((package, *(part for part in parts if part != "__init__")))


@cache
def modules() -> Mapping[str, Path]:
    """Every module of every package, and its file."""
    folders = {package: ROOT / folder for package, (folder, _) in CHAINS.items()}
    return {
        module_name(package, folder, path): path
        for package, folder in folders.items()
        for path in folder.rglob("*.py")
    }


def imported(name: str) -> frozenset[str]:
    """Our modules that a module imports: in functions too, and for type checkers only."""
    found = set()
    for node in ast.walk(ast.parse(modules()[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {each if each in modules() else node.module for each in inner}
    return frozenset(found & modules().keys() - {name})


@cache
def graph() -> Graph:
    return {name: imported(name) for name in modules()}


def longest_chain(edges: Graph) -> list[str]:
    """The modules of one longest chain, the importing one first."""
    chains: dict[str, list[str]] = {}
    for name in TopologicalSorter(edges).static_order():
        below = max((chains[each] for each in edges[name]), key=len, default=[])
        chains[name] = [name, *below]
    return max(chains.values(), key=len)


def test_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_imports_make_a_circle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", list(CHAINS))
def test_chains_of_a_package_are_short(package: str) -> None:
    own = {name for name in graph() if name.partition(".")[0] == package}
    chain = longest_chain({name: graph()[name] & own for name in own})
    assert len(chain) <= CHAINS[package][1], " -> ".join(chain)


def test_no_chain_is_longer_than_the_layers_need() -> None:
    chain = longest_chain(graph())
    assert len(chain) <= WHOLE_CHAIN, " -> ".join(chain)


def test_circles_and_chains_are_noticed() -> None:
    def edges(text: str) -> Graph:
        pairs = [pair.split(">") for pair in text.split()]
        names = {name for pair in pairs for name in pair}
        return {n: frozenset(below for above, below in pairs if above == n) for n in names}

    assert longest_chain(edges("a>b b>c a>d")) == ["a", "b", "c"]
    with pytest.raises(CycleError):
        longest_chain(edges("a>b b>c c>a"))


def test_functions_and_type_checkers_imports_count() -> None:
    assert "vkbench_scheduler.service" in imported("vkbench_cli.commands.serve.services")
    assert "vkbench_db.database" in imported("vkbench_cli.store")


ROW = re.compile(r"^\| `(vkbench\w*)` \| (.*) \|$", re.MULTILINE)


def test_architecture_names_the_imports_that_are_there() -> None:
    there: dict[str, set[str]] = {package: set() for package in CHAINS}
    for name in modules():
        package = name.partition(".")[0]
        there[package] |= {each.partition(".")[0] for each in imported(name)} - {package}
    rows = ROW.findall((ROOT / "ARCHITECTURE.md").read_text())
    others = set(CHAINS) - {"vkbench_cli"}
    named = {
        package: others if says == "all of these" else set(re.findall(r"`(\w+)`", says))
        for package, says in rows
    }
    assert named == there
