"""What has one owner is written by that owner alone: other modules hand it decisions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("vkbench", "shaders", "worker", "scheduler", "db", "local", "tables", "cli")
MODULES = sorted(
    path
    for part in PACKAGES
    for path in (ROOT / part).rglob("*.py")
    if "migrations" not in path.parts
)
CHANGE_POINTS = {"changepoint", "changepointevent"}  # a table's name in any spelling
SCREENS = {"screen", "screened_at", "screened_job"}  # columns of the series' table
TRANSITIONS = "db/vkbench_detection/changes/transitions.py"
STORED_SCREENS = "db/vkbench_detection/series/screens.py"
WRITERS = {"insert", "update", "delete", "insert_missing", "insert_new", "insert_rows"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def written_tables(source: str) -> set[str]:
    """The names of tables that a module inserts into, updates or deletes from."""
    tree = ast.parse(source)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {table for scope in [tree, *scopes] for table in _written(scope)}


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a module or function, without the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)


def _written(scope: ast.AST) -> Iterator[str]:
    aliases = dict(_aliases(scope))
    for node in _own(scope):
        if isinstance(node, ast.Call) and _name(node.func) in WRITERS:
            target = node.func.value if isinstance(node.func, ast.Attribute) else None
            for part in [*node.args, *([target] if target else [])]:
                yield from _tables(part, aliases)


def _aliases(scope: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Local names of tables: `table = schema.series`, `one, other = schema.job, schema.run.c`."""
    for node in _own(scope):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value.elts if isinstance(value, ast.Tuple) else [value]
            for name, one in zip(names, values, strict=False):
                yield _name(name), set(_tables(one, {}))


def _tables(node: ast.AST, aliases: dict[str, set[str]]) -> Iterator[str]:
    for each in ast.walk(node):
        name = _name(each)
        yield name.replace("_", "").lower()
        yield from aliases.get(name, ())


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def named_columns(source: str) -> set[str]:
    """Names that a module gives values for: of keyword arguments and of dictionaries."""
    tree = ast.parse(source)
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    keys = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    return keywords | keys


@pytest.mark.parametrize(
    "source",
    [
        "update(schema.change_point)",
        "insert(change_point_event)",
        "def f():\n  table, other = schema.change_point, schema.series\n  update(table)",
        "schema.change_point.update()",
        "insert_missing(tx, schema.change_point, rows)",
        "insert_rows(tx, schema.change_point, rows)",
    ],
)
def test_writing_is_seen_however_it_is_spelled(source: str) -> None:
    assert written_tables(source) & CHANGE_POINTS


def test_change_points_are_written_by_their_transitions_alone() -> None:
    writers = {relative(path) for path in MODULES if _writes_change_points(path)}
    assert writers == {TRANSITIONS}


def test_screens_are_written_where_they_are_stored_alone() -> None:
    writers = {relative(path) for path in MODULES if _writes_screens(path)}
    assert writers == {STORED_SCREENS}


def test_screens_restart_and_resume_by_decisions_alone() -> None:
    callers = {relative(path) for path in MODULES if _resets_screens(path)}
    assert callers == {TRANSITIONS}


def _writes_change_points(path: Path) -> bool:
    return bool(written_tables(path.read_text()) & CHANGE_POINTS)


def _writes_screens(path: Path) -> bool:
    source = path.read_text()
    return "series" in written_tables(source) and bool(named_columns(source) & SCREENS)


def _resets_screens(path: Path) -> bool:
    source = path.read_text()
    return "screens.restart" in source or "screens.resume" in source
