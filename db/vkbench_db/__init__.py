"""What happened: tables, migrations, writes and queries of the results database."""
