"""Division by numbers that a launch knows, without dividing: see slang/lib/division.slang."""

from __future__ import annotations

MOST = 1 << 31  # numbers below it are divided exactly


def divisor(number: int) -> dict[str, int]:
    """A shader's Divisor: the number, and what its multiples are told by."""
    shift = (number - 1).bit_length()
    return {"number": number, "multiplier": -(-(1 << (31 + shift)) // number), "shift": shift}
