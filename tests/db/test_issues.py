"""Regressions as issues: one each on a fake forge, closed when fixed, whatever breaks meanwhile."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from fake_forge import TOKEN, FakeForge, forge_running
from planted_news import NOW, deliveries, happens, moves
from vkbench.errors import UsageError
from vkbench.settings import Settings, read
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_scheduler.watch.alerts import FIRST_RETRY_SECONDS, GATHER_SECONDS, MOST_APART, step

KINDS = ("github", "gitlab")


def settings_for(fake: FakeForge, kind: str) -> Settings:
    return read(
        {
            "VKBENCH_ISSUES": f"{kind}:a/b",
            "VKBENCH_ISSUES_TOKEN": TOKEN,
            "VKBENCH_ISSUES_URL": fake.url,
        }
    )


def comes_to(database: Database, regression: int, state: str, event: str = "") -> None:
    """A regression comes into a state, and an event says so."""
    table = schema.regression
    with database.transaction() as tx:
        tx.execute(update(table).where(table.c.id == regression).values(state=state))
        moves(tx, regression, event or state)


@pytest.mark.parametrize("kind", KINDS)
def test_an_issue_opens_and_closes_and_opens_again(database: Database, kind: str) -> None:
    regression = happens(database)
    with forge_running() as fake:
        ours = settings_for(fake, kind)
        told = []
        for state, event in (("", ""), ("fixed", "fixed"), ("open", "again"), ("fixed", "fixed")):
            if state:
                comes_to(database, regression, state, event)
            for later in (0, 1):
                step(database, ours, NOW + later)
            told.append(fake.issues[0]["state"])
    assert told == ["open", "closed", "open", "closed"]
    (issue,) = fake.issues
    assert issue["title"] == "vkbench: copy f32 is 10 % slower"
    assert len(fake.comments[1]) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_try_whose_answer_was_lost_opens_no_second_issue(database: Database, kind: str) -> None:
    regression = happens(database)
    with forge_running() as fake:
        fake.lost = 1
        ours = settings_for(fake, kind)
        step(database, ours, NOW)
        assert "502" in deliveries(database, regression)[0].error
        step(database, ours, NOW + FIRST_RETRY_SECONDS)
    assert [issue["state"] for issue in fake.issues] == ["open"]
    assert deliveries(database, regression)[0].delivered_at


def test_what_was_fixed_while_the_forge_was_down_opens_nothing(database: Database) -> None:
    regression = happens(database)
    with forge_running(503) as fake:
        ours = settings_for(fake, "github")
        step(database, ours, NOW)
        comes_to(database, regression, "fixed")
        for later in (1, FIRST_RETRY_SECONDS, GATHER_SECONDS):
            step(database, ours, NOW + later)
    assert fake.issues == []
    assert all(delivery.delivered_at for delivery in deliveries(database, regression))


def test_many_regressions_are_issues_of_their_own(database: Database) -> None:
    for _ in range(MOST_APART + 2):
        happens(database)
    with forge_running() as fake:
        for later in (0, 1, GATHER_SECONDS, GATHER_SECONDS + 1):
            step(database, settings_for(fake, "gitlab"), NOW + later)
    assert len(fake.issues) == MOST_APART + 2


def test_a_forge_that_refuses_costs_one_try_a_step_and_tells_no_token(database: Database) -> None:
    regressions = [happens(database) for _ in range(3)]
    with forge_running(*[401] * 9) as fake:
        step(database, settings_for(fake, "github"), NOW)
    assert len(fake.requests) == 1
    errors = [deliveries(database, regression)[0].error for regression in regressions]
    assert sum("401" in error for error in errors) == 1
    assert TOKEN not in repr(errors)


def test_issues_without_a_token_are_refused() -> None:
    with pytest.raises(UsageError, match="VKBENCH_ISSUES_TOKEN"):
        read({"VKBENCH_ISSUES": "github:a/b"})
