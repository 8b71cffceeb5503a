"""Enumerations that options of commands accept."""

from __future__ import annotations

from enum import StrEnum

from vkbench.job import Mode


class Aim(StrEnum):
    """Modes that a user can ask for; only vkbench itself creates paired jobs."""

    CORRECTNESS = Mode.CORRECTNESS.value
    PERFORMANCE = Mode.PERFORMANCE.value
    BOTH = Mode.BOTH.value


class Property(StrEnum):
    """Properties of kernels that can be checked beside right results."""

    BATCH = Mode.BATCH.value


class CacheFormat(StrEnum):
    """Formats of a model's keys and values."""

    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
