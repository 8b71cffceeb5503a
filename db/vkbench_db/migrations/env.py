"""What Alembic runs: the migrations, on the connection that `migrations.upgrade` was given."""

from __future__ import annotations

from alembic import context

from vkbench_db.schema import TABLES

connection = context.config.attributes["connection"]
if connection.dialect.name == "postgresql":  # two upgrades at once: one waits
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7760755)")
context.configure(
    connection=connection,
    target_metadata=TABLES,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
