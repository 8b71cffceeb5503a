"""the git revisions that bundles were made of, where the machine that made them knew"""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE bundle ADD COLUMN made_of JSON DEFAULT '[]' NOT NULL")
