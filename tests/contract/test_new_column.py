"""A new column of results is planted in five places of a copy: all else finds it.

CONTRIBUTING.md, "Add a column to results", names the places.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from copied_packages import ROOT, VKBENCH, CopiedPackages, copy_packages
from vkbench_db.database import SCHEMA

DRIVER = ROOT / "tests/planted/planted_column.py"
TABLE = "db/vkbench_db/schema/work.py"
RECORD = "vkbench/result.py"
DISPLAY = "tables/vkbench_tables/results.py"
MEANINGS = "db/vkbench_db/ask/sql/view_columns.py"
MIGRATIONS = "db/vkbench_db/migrations/versions"
COLUMN, VALUE = "slowest", 0.125
IMPORT = "from vkbench_db.ask.sql.view_columns import MEANINGS"


@pytest.fixture
def planted(tmp_path: Path) -> CopiedPackages:
    """A copy of the packages with one column more."""
    copy = copy_packages(tmp_path)
    copy.insert(
        TABLE,
        f'    {COLUMN}: Named[float] = Column(Float, default=0.0, server_default="0")\n',
        before="    # why its series leaves it out",
    )
    copy.insert(TABLE, f"    {COLUMN}: float | None\n", before="\n\n_TYPES = {")
    copy.insert(
        RECORD,
        f"    {COLUMN}: float = 0.0\n",
        before="\n\n@dataclass(frozen=True, kw_only=True)\nclass Result:",
    )
    copy.insert(
        DISPLAY,
        f'    Column(key="{COLUMN}", heading="slowest"),\n',
        before='    Column(key="remark"',
    )
    copy.insert(
        DISPLAY,
        f'        "{COLUMN}": rated.{COLUMN} if rated else None,\n',
        before='        "remark": _remark(',
    )
    copy.insert(MEANINGS, f'    "{COLUMN}": "slowest sample, seconds",\n', before="}\n_SERIES")
    _plant_migration(tmp_path / MIGRATIONS)
    return copy


def _plant_migration(folder: Path) -> None:
    """The next migration: the column, and both views anew."""
    number = f"{int(SCHEMA) + 1:04}"
    shown = "measurement.side AS side"
    column = f'sa.Column("{COLUMN}", sa.Float(), server_default="0", nullable=False)'
    read = "SELECT sql FROM sqlite_master WHERE name IN ('v_results', 'v_latest') ORDER BY rowid"
    steps = (
        f'op.add_column("measurement", {column})',
        f'views = op.get_bind().exec_driver_sql("{read}").scalars().all()',
        f'assert "{shown}" in views[0]',
        *(f'op.execute("DROP VIEW {view}")' for view in ("v_latest", "v_results")),
        "for view in views:",
        f'    op.execute(view.replace("{shown}", "{shown}, measurement.{COLUMN} AS {COLUMN}"))',
    )
    head = (
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f'revision, down_revision = "{number}", "{SCHEMA}"\n\n\n'
    )
    body = "".join(f"    {step}\n" for step in steps)
    (folder / f"{number}_planted.py").write_text(f"{head}def upgrade() -> None:\n{body}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_everything_finds_a_column_that_was_planted(
    planted: CopiedPackages, tmp_path: Path
) -> None:
    home, elsewhere = (f"sqlite:///{tmp_path / name}.db" for name in ("home", "elsewhere"))
    done = planted.run(str(DRIVER), COLUMN, str(VALUE), home, elsewhere)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["home"] == [VALUE]
    assert found["elsewhere"] == [VALUE]
    assert COLUMN in found["view"]
    meant = planted.run("-c", f"{IMPORT}; print(*sorted(MEANINGS['v_results']))")
    assert meant.stdout.split() == found["view"]
    for database in (home, elsewhere):
        shown = planted.run("-c", VKBENCH, "results", "--database", database, "--json")
        assert shown.returncode == 0, shown.stderr
        rows = json.loads(shown.stdout)["rows"]
        assert [row[COLUMN] for row in rows] == [VALUE] * 3
