"""A machine with a planted device, and an empty database."""

from demonstrated import demonstrated
from planted_machine import database, planted

__all__ = ["database", "demonstrated", "planted"]
