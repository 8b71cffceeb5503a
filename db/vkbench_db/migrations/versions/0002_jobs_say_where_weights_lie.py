"""jobs say where weights lie"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Not in batch mode: the table stays as it is, and with it the views that read it.
    op.add_column("job", sa.Column("source", sa.JSON(none_as_null=True), nullable=True))
