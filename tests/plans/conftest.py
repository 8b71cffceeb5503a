"""A planted machine, and a database with two of its runs."""

from __future__ import annotations

from planted_machine import database, planted
from planted_runs import filled, past

__all__ = ["database", "filled", "past", "planted"]
