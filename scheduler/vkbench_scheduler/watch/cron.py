"""Cron expressions in UTC: which times they name."""

from __future__ import annotations

from datetime import UTC, datetime

from vkbench.errors import UsageError


def check(cron: str) -> str:
    """A cron expression of five fields (or @daily and the like); UsageError for anything else."""
    from croniter import croniter

    fields = cron.split()
    whole = len(fields) == 5 or (len(fields) == 1 and cron.startswith("@"))
    # croniter draws an R anew at each question, so that a schedule would be due again and again
    is_random = any(field.casefold().startswith("r") for field in fields)
    if not whole or is_random or not croniter.is_valid(cron) or next_slot(cron, 0.0) is None:
        raise UsageError(
            f"'{cron}' is no cron expression: give minute, hour, day, month and weekday, in UTC, "
            "such as '0 2 * * *'"
        )
    return cron


def next_slot(cron: str, after: float) -> float | None:
    """The first slot after a moment; None for days that never come."""
    from croniter import CroniterBadDateError, croniter

    try:
        return float(croniter(cron, datetime.fromtimestamp(after, UTC)).get_next(float))
    except CroniterBadDateError:
        return None


def slots_between(cron: str, after: float, until: float, most: int) -> list[float]:
    """Slots after a moment and not after another, newest first."""
    from croniter import croniter

    # get_prev leaves the moment itself out, and a slot that is now is due
    slots = croniter(cron, datetime.fromtimestamp(int(until) + 1, UTC))
    due: list[float] = []
    while len(due) < most and (slot := float(slots.get_prev(float))) > after:
        due.append(slot)
    return due
