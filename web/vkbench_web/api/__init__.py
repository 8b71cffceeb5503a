"""The read API: what the commands print as JSON, with the same names."""
