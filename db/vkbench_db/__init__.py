"""What happened: models, migrations, writes and queries of the results database."""
