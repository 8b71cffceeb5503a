"""A planted machine, a database with two of its runs, and a full disk."""

from __future__ import annotations

from full_disk import full_disk
from planted_machine import database, planted
from planted_runs import filled, past, planted_regression

__all__ = ["database", "filled", "full_disk", "past", "planted", "planted_regression"]
