"""views name builds: the program and the build that computed a result, and those around a change"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_ADDED = {
    "v_results": (
        ("measurement.side AS side", "build.program AS program", "build.name AS build"),
        "LEFT JOIN build ON build.sha = job.bundle",
        "    WHERE job.finished_at IS NOT NULL",
    ),
    "v_latest": ((), "", ""),  # has the columns of v_results
    "v_regressions": (
        (
            "change_point.found_at AS found_at",
            "new.program AS program",
            "old.name AS before_build",
            "new.name AS after_build",
        ),
        "LEFT JOIN build AS old ON old.sha = change_point.before_bundle\n"
        "    LEFT JOIN build AS new ON new.sha = change_point.after_bundle",
        "",
    ),
}


def upgrade() -> None:
    tx = op.get_bind()
    is_sqlite = tx.dialect.name == "sqlite"
    first = Path(__file__).with_name("first_schema.sql").read_text().split(";\n")
    views = {name: _add_columns(name, first) for name in _ADDED}
    if is_sqlite:
        for name in reversed(views):
            op.execute(f"DROP VIEW {name}")
    for statement in views.values():  # PostgreSQL keeps what roles may read
        word = "CREATE VIEW" if is_sqlite else "CREATE OR REPLACE VIEW"
        tx.exec_driver_sql(statement.replace("CREATE VIEW", word, 1))


def _add_columns(name: str, first: list[str]) -> str:
    """The statement of the first schema that makes a view, with what it has more now."""
    [statement] = [made for made in first if f"CREATE VIEW {name} AS" in made]
    columns, joined, before = _ADDED[name]
    if not columns:
        return statement.strip()
    known, *more = columns
    statement = statement.strip().replace(known, ",\n        ".join((known, *more)))
    if before:
        return statement.replace(before, f"    {joined}\n{before}")
    return f"{statement}\n    {joined}"
