"""Statements of SQL that people write, run where they cannot write, and the views they may read."""
