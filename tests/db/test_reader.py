"""Statements that try to hold up the service or to fill its memory end, and others are answered."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vkbench_db.ask.sql import readonly
from vkbench_db.errors import QueryRefused

SECONDS = 1.0
ATTACKS = {  # each within one step of SQLite's virtual machine
    "replace": "SELECT length(replace(hex(zeroblob({n})), hex(zeroblob({n} / 2)) || '1', 'x'))",
    "instr": "SELECT instr(hex(zeroblob({n})), hex(zeroblob({n} / 2)) || '1')",
}
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
GREEDY = (
    NUMBERS + " SELECT length(group_concat(hex(randomblob(1000000)))) FROM n",
    NUMBERS + " SELECT hex(zeroblob(500000)) FROM n",
    NUMBERS + " SELECT json_group_array(hex(zeroblob(500000))) FROM n",
    NUMBERS + " SELECT count(*) FROM (SELECT randomblob(500000) b FROM n ORDER BY b)",
    NUMBERS + " SELECT count(DISTINCT randomblob(500000)) FROM n",
)
PUBLIC = readonly.Bounds(is_public=True, seconds=SECONDS)
PRIVATE = readonly.Bounds(seconds=SECONDS)


@pytest.fixture
def file(template_file: Path) -> str:
    """The URL of a SQLite database with the schema."""
    return f"sqlite:///{template_file}"


@pytest.mark.parametrize("bounds", [PUBLIC, PRIVATE], ids=["public", "private"])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_function_that_looks_at_no_clock_is_ended(
    file: str, name: str, bounds: readonly.Bounds
) -> None:
    size = 500_000 if bounds.is_public else 25_000_000
    began = time.monotonic()
    with pytest.raises(QueryRefused, match=r"took too long \(more than 1 s\)"):
        readonly.query(file, ATTACKS[name].format(n=size), bounds)
    assert time.monotonic() - began < 3 * SECONDS


def test_a_blank_database_is_guarded_too() -> None:
    began = time.monotonic()
    with pytest.raises(QueryRefused, match="took too long"):
        readonly.query_blank(ATTACKS["instr"].format(n=25_000_000), PRIVATE)
    assert time.monotonic() - began < 3 * SECONDS
    assert readonly.query_blank("SELECT count(*) AS n FROM v_results", PUBLIC) == (["n"], [(0,)])


def query_greedily(file: str, sql: str) -> None:
    """Run a statement that is refused; print the most bytes that a child of this process had."""
    bounds = readonly.Bounds(is_public=True, seconds=4)
    with pytest.raises(QueryRefused, match=r"too much|too big|more than"):
        readonly.query(file, sql.format(count=5000), bounds)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


@pytest.mark.parametrize("sql", GREEDY)
def test_memory_and_temporary_files_are_bounded(file: str, sql: str) -> None:
    # in a process of its own: children of other tests count as children of this one
    code = f"import test_reader; test_reader.query_greedily({file!r}, {sql!r})"
    command = [sys.executable, "-c", code]
    folder = Path(__file__).parent
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    assert 0 < int(done.stdout) < readonly.MOST_MEMORY


def test_others_are_answered_while_a_statement_is_ended(file: str) -> None:
    refused: list[str] = []

    def attack() -> None:
        with pytest.raises(QueryRefused) as caught:
            readonly.query(file, ATTACKS["instr"].format(n=25_000_000), PRIVATE)
        refused.append(str(caught.value))

    thread = threading.Thread(target=attack)
    thread.start()
    answers = [readonly.query(file, "SELECT count(*) FROM host")[1] for _ in range(3)]
    thread.join()
    assert answers == [[(0,)]] * 3
    assert len(refused) == 1


def test_every_kind_of_cell_comes_as_it_is(file: str) -> None:
    sql = "SELECT NULL, 1, -9223372036854775808, 1.5, 9e999, 'ä\U0001f600\n\"', x'00ff', '', x''"
    assert readonly.query(file, sql)[1] == [
        (None, 1, -(2**63), 1.5, float("inf"), 'ä\U0001f600\n"', b"\x00\xff", "", b"")
    ]
    assert readonly.query(file, "SELECT 1 AS a, 2 AS a WHERE 0") == (["a", "a"], [])
