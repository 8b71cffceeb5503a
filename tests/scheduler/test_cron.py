"""Cron expressions: what is one, and which times it names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vkbench.errors import UsageError
from vkbench_scheduler.watch.cron import check, next_slot, slots_between

MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC).timestamp()


def test_slots_are_in_utc_and_one_that_is_now_is_due() -> None:
    two = MIDNIGHT + 7200
    assert slots_between("0 2 * * *", MIDNIGHT, two - 0.5, 9) == []
    assert slots_between("0 2 * * *", MIDNIGHT, two, 9) == [two]
    assert slots_between("0 2 * * *", two, two + 0.5, 9) == []
    assert slots_between("0 * * * *", MIDNIGHT, two, 9) == [two, two - 3600]
    assert slots_between("* * * * *", MIDNIGHT, two, 3) == [two, two - 60, two - 120]
    assert next_slot("0 2 * * *", two) == two + 86_400


@pytest.mark.parametrize("cron", ["0 2 * * *", "*/5 8-18 * * mon-fri", "@daily"])
def test_cron_expressions(cron: str) -> None:
    assert check(cron) == cron
    assert (next_slot(cron, MIDNIGHT) or 0) > MIDNIGHT


@pytest.mark.parametrize(
    "cron",
    [
        *("", "often", "0 2 * *", "61 * * * *", "0 2 * * * 5", "0 0 31 2 *"),
        *("H 2 * * *", "R 2 * * *", "0 r(1-5) * * *"),  # by a hash, and by chance
    ],
)
def test_what_is_no_cron_expression(cron: str) -> None:
    with pytest.raises(UsageError, match="is no cron expression"):
        check(cron)
