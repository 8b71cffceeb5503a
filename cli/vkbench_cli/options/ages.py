"""Ages that options name, such as 180d."""

from __future__ import annotations

import re

from vkbench.errors import UsageError

DAYS = {"d": 1, "w": 7, "y": 365}


def seconds_of_age(age: str) -> float:
    """The seconds of an age in days, weeks or years."""
    match = re.fullmatch(r"([0-9]{1,4})([dwy])", age)
    if not match or not int(match[1]):
        raise UsageError(f"'{age}' is no age: give a number of days, weeks or years, such as 180d")
    return int(match[1]) * DAYS[match[2]] * 86400.0
