"""runs say what they are for; tags are their users' alone"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from vkbench_db.older import purpose_of, tags_of

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

KINDS = (
    *("work", "sweep", "confirmation", "bisection", "calibration"),
    *("trial", "second check", "shard", "accuracy", "import"),
)


def upgrade() -> None:
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    # alembic adds no constraint to a table of SQLite, which takes one with the column
    op.execute(
        "ALTER TABLE run ADD COLUMN kind TEXT DEFAULT 'work' NOT NULL"
        f" CONSTRAINT ck_run_kind CHECK (kind IN ({kinds}))"
    )
    about = sa.Column("about", sa.JSON(), nullable=False, server_default="{}")
    op.add_column("run", about)
    table = sa.table(
        "run",
        *map(sa.column, ("id", "kind", "mode", "track", "priority", "label")),
        *(sa.column(name, sa.JSON()) for name in ("tags", "selection", "about")),
    )
    for run in op.get_bind().execute(sa.select(table)).all():
        purpose, tags = purpose_of(run), tags_of(run)
        said = {"kind": purpose.kind.value, "about": dict(purpose.about), "tags": tags}
        op.execute(sa.update(table).where(table.c.id == run.id).values(**said))
