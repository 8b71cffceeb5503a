"""`vkbench results --parquet`: a file of columns, asked by DuckDB as docs/howto/agents.md says."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from commands import read_rows, run_command
from vkbench_db.database import Database

PAGE = Path(__file__).parents[2] / "docs/howto/agents.md"
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(
    filled: Database, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The results of two runs as Parquet, in the folder in which the test is."""
    monkeypatch.chdir(tmp_path)
    words = ("results", "--history", "--parquet", "results.parquet")
    assert "results.parquet: 6 rows" in run_command(capsys, *words)[1]
    return tmp_path / "results.parquet"


def test_it_has_what_json_has(file: Path, capsys: Captured) -> None:
    rows = read_rows(capsys, "results", "--history")
    with duckdb.connect() as database:
        relation = database.sql(f"SELECT * FROM '{file}'")
        names, found = relation.columns, relation.fetchall()
        kinds = dict(zip(names, map(str, relation.types), strict=True))
    assert names == list(rows[0])
    assert [row[names.index("hot_seconds")] for row in found] == [
        row["hot_seconds"] for row in rows
    ]
    assert [row[names.index("case")] for row in found] == [row["case"] for row in rows]
    assert kinds["hot_seconds"] == "DOUBLE"
    assert kinds["job"] == "BIGINT"
    assert kinds["finished_at"] == "TIMESTAMP WITH TIME ZONE"


def test_the_documented_query_answers(file: Path) -> None:
    [statement] = re.findall(r"```duckdb\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with duckdb.connect() as database:
        rows = database.sql(statement).fetchall()
    assert rows
    assert rows[0][-1] == pytest.approx(2.0)


def test_other_forms_are_refused_beside_it(tmp_path: Path, capsys: Captured) -> None:
    for words in (["--as", "md"], ["--json"], ["--statistics"]):
        command = ("results", "--parquet", str(tmp_path / "file"), *words)
        assert "a form of its own" in run_command(capsys, *command, code=2)[1]
    command = ("results", "--parquet", str(tmp_path / "no" / "file"))
    assert "there is no folder" in run_command(capsys, *command, code=2)[1]
