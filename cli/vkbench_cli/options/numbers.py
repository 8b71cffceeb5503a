"""Numbers as options take them."""

from __future__ import annotations

from vkbench.errors import UsageError


def counts(text: str, option: str, least: int = 0) -> list[int]:
    """Numbers with commas between them, `least` or more; 0 is left out."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers, as 512,2048; got {text}") from None
    if min(numbers) < least:
        raise UsageError(f"{option} takes numbers from {least} on; got {text}")
    return [number for number in numbers if number]
