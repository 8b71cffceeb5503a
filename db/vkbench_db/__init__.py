"""What happened: models, migrations, the job state machine, writes and queries, on SQLite and PostgreSQL."""
