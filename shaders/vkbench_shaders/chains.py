"""Launches that wait in the shader for the launch before: see slang/lib/chain.slang.

A buffer of counters is bound behind a chained launch's own. Each level of launches has a word in
it, which counts the workgroups that have ended. A launch by itself waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Problem
from vkbench_shaders.launch import PushValue

CHAINED: Final = "chained"  # the variant of kernels that can wait
CHAINED_NUMBERS: Final = "chained_numbers"  # of numbers: takes fewer features
NAMES: Final = (CHAINED, CHAINED_NUMBERS)
LINK: Final = "link"  # the structure in the blocks of push constants
LINE: Final = 32  # words from counter to counter, so that no two share a cache line
GIVEN_UP: Final = 0  # the word that is set when a workgroup waited too long


def link(before: int, goal: int, own: int) -> Mapping[str, int]:
    """Waits for `goal` workgroups counted by the level `before`; what it counts itself is `own`."""
    return {"before": (before + 1) * LINE, "goal": goal, "own": (own + 1) * LINE}


def numbers(given: Mapping[str, int]) -> Mapping[str, int]:
    """The same by the names that the block of push constants has them under."""
    return {f"{LINK}.{name}": number for name, number in given.items()}


def counters_bytes(levels: int) -> int:
    """Of the counters of so many levels, and the word that says who gave up."""
    return 4 * LINE * (levels + 1)


ALONE: Final[Mapping[str, PushValue]] = {LINK: link(0, 0, 0)}


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """The counters of a launch by itself."""
    return (counters_bytes(1),)
