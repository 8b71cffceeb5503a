"""A machine with a planted device, and an empty database."""

from planted_machine import database, planted

__all__ = ["database", "planted"]
