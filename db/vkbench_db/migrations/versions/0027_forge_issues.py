"""issues that regressions have on GitHub or GitLab"""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE TABLE forge_issue (regression_id INTEGER NOT NULL, channel TEXT NOT NULL, "
        "number INTEGER NOT NULL, link TEXT NOT NULL, "
        "CONSTRAINT pk_forge_issue PRIMARY KEY (regression_id, channel), "
        "CONSTRAINT fk_forge_issue_regression_id_regression FOREIGN KEY(regression_id) "
        "REFERENCES regression (id))"
    )
