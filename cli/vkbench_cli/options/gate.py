"""The gate of comparisons: what is refused, and what ends a command with an error."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from vkbench.errors import (
    EXIT_OK,
    EXIT_REGRESSION,
    NothingToDo,
    UsageError,
    VkbenchError,
    WrongResult,
)
from vkbench.job import JobState
from vkbench_tables.comparisons import comparison_words

if TYPE_CHECKING:
    from vkbench_detection.compare.compared import Comparison


class FailOn(StrEnum):
    """What makes the command exit with an error."""

    REGRESSION = "regression"  # 1; 3 where something became wrong, 4 where it fails now
    WRONG = "wrong"  # 3
    NEVER = "never"


def check_comparison(compared: Comparison, *, mix: bool, fail_on: FailOn) -> None:
    """UsageError where two sides cannot be judged so; NothingToDo if they share no case."""
    if not (compared.pairs or compared.changes):
        raise NothingToDo(
            f"{comparison_words.sides(compared)}: no timed case in common"
            f"{comparison_words.one_sided_cases(compared)}"
        )
    if compared.is_across and fail_on is FailOn.REGRESSION:
        raise UsageError(
            f"{comparison_words.sides(compared)}: a slower device is no regression; "
            "--fail-on regression needs a device in common, --fail-on wrong does not"
        )
    if compared.policies and not mix:
        changes = "; ".join(f"{key} {old} and now {new}" for key, old, new in compared.policies)
        raise UsageError(
            f"the timings were taken under different clock policies ({changes.strip()}): "
            "--mix compares them all the same"
        )


def exit_code(compared: Comparison, fail_on: FailOn) -> int:
    """What `compare` exits with; NothingToDo if no timing counts and one should."""
    is_wrong = any(change.new is JobState.WRONG for change in compared.changes)
    if is_wrong and fail_on is not FailOn.NEVER:
        return WrongResult.exit_code
    if fail_on is not FailOn.REGRESSION:
        return EXIT_OK
    if any(change.new is JobState.FAILED for change in compared.changes):
        return VkbenchError.exit_code
    if compared.pairs and not compared.counting:
        raise NothingToDo(f"no timing was compared: {comparison_words.counted_words(compared)}")
    return EXIT_REGRESSION if any(pair.is_slower for pair in compared.pairs) else EXIT_OK
