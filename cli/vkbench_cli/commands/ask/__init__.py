"""Commands that read and show what the database holds."""
