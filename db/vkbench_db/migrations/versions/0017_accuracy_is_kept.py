"""what formats and models lost, by the runs that measured it"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_TEXTS = ("subject", "model", "weights", "format", "quantiser", "base", "base_format", "text_sha")
_NUMBERS = (
    *("output_error", "weight_error", "perplexity", "perplexity_error", "loss", "loss_error"),
    "tokens_per_second",
)
_VIEW = """
    CREATE VIEW v_accuracy AS
    SELECT
        accuracy.subject AS subject,
        accuracy.model AS model,
        accuracy.weights AS weights,
        accuracy.format AS format,
        accuracy.bits AS bits,
        accuracy.bytes AS bytes,
        accuracy.quantiser AS quantiser,
        accuracy.output_error AS output_error,
        accuracy.weight_error AS weight_error,
        accuracy.perplexity AS perplexity,
        accuracy.perplexity_error AS perplexity_error,
        accuracy.base AS base,
        accuracy.base_format AS base_format,
        accuracy.loss AS loss,
        accuracy.loss_error AS loss_error,
        accuracy.text_sha AS text_sha,
        accuracy.context AS context,
        accuracy.windows AS windows,
        accuracy.tokens AS tokens,
        accuracy.cache AS cache,
        accuracy.variant AS variant,
        accuracy.tokens_per_second AS tokens_per_second,
        accuracy.host AS host,
        accuracy.device_name AS device_name,
        accuracy.measured_at AS measured_at,
        accuracy.run_id AS run,
        run.uuid AS run_uuid,
        run.label AS run_label,
        accuracy.position AS position
    FROM accuracy
    JOIN run ON run.id = accuracy.run_id
"""


def upgrade() -> None:
    op.create_table(
        "accuracy",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _TEXTS),
        sa.Column("bits", sa.Float(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        *(sa.Column(name, sa.Float(), nullable=True) for name in _NUMBERS),
        sa.Column("context", sa.Integer(), nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("cache", "variant", "host", "device_name")
        ),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_accuracy_run_id_run"),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_accuracy"),
    )
    op.execute(_VIEW)
