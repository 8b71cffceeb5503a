"""What options of commands accept: enumerations, and lists of numbers."""

from __future__ import annotations

from enum import StrEnum
from math import inf

from vkbench.errors import UsageError
from vkbench.job import Mode


class Aim(StrEnum):
    """Modes that a user can ask for; only vkbench itself creates paired jobs."""

    CORRECTNESS = Mode.CORRECTNESS.value
    PERFORMANCE = Mode.PERFORMANCE.value
    BOTH = Mode.BOTH.value


class Property(StrEnum):
    """Properties of kernels beside right results and fast launches."""

    BATCH = Mode.BATCH.value
    COMPILE = Mode.COMPILE.value


class CacheFormat(StrEnum):
    """Formats of a model's keys and values."""

    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"


def counts(text: str, option: str, least: int = 0) -> list[int]:
    """Numbers with commas between them, `least` or more; 0 is left out."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes whole numbers, as 512,2048; got {text}") from None
    if min(numbers) < least:
        raise UsageError(f"{option} takes numbers from {least} on; got {text}")
    return [number for number in numbers if number]


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str, option: str) -> float:
    """The seconds of a time such as 90, 90s, 10m or 1h; UsageError of anything else."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise UsageError(f"{option} takes a time, as 90, 10m or 1h; got '{text}'")
    return seconds
