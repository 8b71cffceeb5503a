"""Series that pairs do not measure, of shards and of compiling: they are never those of the case
itself, and later results decide what is suspected.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import select, text

from databases import Lab, one_engine, timing, verdict
from vkbench.device import Environment
from vkbench.job import MAIN, SHARDS, Mode, Outcome
from vkbench.messages.wire import Announcement
from vkbench.result import COMPILE, COPIES, HOT, SUBMIT, Result
from vkbench_db import schema
from vkbench_db.ask.job_story import hot_seconds
from vkbench_db.work import store
from vkbench_db.work.devices import store_environment
from vkbench_db.work.ended import add_ended
from vkbench_detection.confirm.fleet import device_ids
from vkbench_detection.confirm.waiting import waiting
from vkbench_detection.find.history import due_series
from vkbench_detection.steps import detect, scan
from vkbench_scheduler.watch import confirm

NIGHT = 86_400.0
CASE = "matmul/f16/b1_m64_n32_k48"
LEVEL = 1e-3
CHANGES = "SELECT direction, state, cause FROM change_point ORDER BY id"


@dataclass
class Nights:
    """A lab on whose device a case is divided night by night, and done undivided too."""

    lab: Lab
    device: str
    environment: Environment
    is_compiled: bool = False  # compile jobs take the place of shards
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def pass_by(self, count: int, factor: float = 1.0) -> None:
        """So many nights with the shards so much slower."""
        for _ in range(count):
            self.lab.now += NIGHT
            self.announce()
            self.lab.submit(self.device, [CASE])
            self.lab.settle(self.device, seconds=LEVEL)
            self.lab.now += 60
            mode, track = (Mode.COMPILE, MAIN) if self.is_compiled else (Mode.SHARDED, SHARDS)
            with self.lab.database.transaction() as tx:
                store_environment(tx, self.environment)
                run = store.create_run(tx, mode=mode, selection={}, now=self.lab.now, track=track)
                if self.is_compiled:
                    ended = [self.compiled(factor)]
                else:
                    ended = [self.ended(shards, factor) for shards in (1, 2)]
                add_ended(tx, run.id, ended, self.lab.now)
            detect(self.lab.database, self.lab.now)

    def announce(self) -> None:
        """The worker is there."""
        announcement = Announcement(
            worker="alpha:1", facts=self.lab.facts(), environment=self.environment, bundle="b"
        )
        with self.lab.database.transaction() as tx:
            store.register_device(tx, announcement, self.lab.now)

    def ended(self, shards: int, factor: float) -> tuple[Any, Result]:
        planned = self.lab.planned(
            self.device, CASE, mode=Mode.SHARDED, variant=f"auto:shards={shards}"
        )
        seconds = LEVEL / shards * factor * self.rng.gauss(1, 0.004)
        result = Result(
            job=0, token=0, outcome=Outcome.PASSED, case=CASE, variant=f"subgroup:shards={shards}",
            kernel_sha="5a" * 32, bundle="b", verdict=verdict(True),
            timings=(timing(HOT, seconds), timing(COPIES, 1.5 * seconds)),
            environment=self.environment.hash, worker="alpha:1", started=self.lab.now, seconds=0.1,
        )  # fmt: skip
        return planned, result

    def compiled(self, factor: float) -> tuple[Any, Result]:
        """A compile job, whose times scatter by 3 %."""
        planned, result = self.ended(1, factor)
        planned = self.lab.planned(self.device, CASE, mode=Mode.COMPILE, variant="auto")
        seconds = {COMPILE: 0.4 * factor, SUBMIT: 5e-6}
        timings = [timing(name, value * self.rng.gauss(1, 0.03)) for name, value in seconds.items()]
        return planned, replace(result, variant="subgroup", timings=tuple(timings))


@pytest.fixture
def nights(lab: Lab, environment: Environment) -> Nights:
    made = Nights(lab, lab.add_device(), environment)
    made.pass_by(40)
    assert rows(made, CHANGES) == []
    return made


def rows(nights: Nights, question: str) -> list[tuple[Any, ...]]:
    with nights.lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]


def scanned(nights: Nights) -> None:
    with nights.lab.database.reading() as tx:
        series = tx.execute(select(schema.series.c.id)).scalars().all()
    scan(nights.lab.database, series, nights.lab.now)


def test_shards_are_no_results_of_the_case_itself(nights: Nights) -> None:
    found = rows(
        nights,
        "SELECT track, variant, series.metric, count(*) FROM measurement JOIN series"
        " ON series.id = series_id GROUP BY track, variant, series.metric ORDER BY 1, 2, 3",
    )
    assert found == [
        ("main", "subgroup", "cold", 40),
        ("main", "subgroup", "hot", 40),
        *((SHARDS, f"subgroup:shards={n}", each, 40) for n in (1, 2) for each in (COPIES, HOT)),
    ]
    latest = "SELECT mode, variant_run FROM v_latest GROUP BY mode, variant_run ORDER BY 1, 2"
    assert rows(nights, latest) == [
        ("performance", "subgroup"),
        ("sharded", "subgroup:shards=1"),
        ("sharded", "subgroup:shards=2"),
    ]
    with nights.lab.database.reading() as tx:
        assert hot_seconds(tx, nights.device, [CASE]) == {CASE: LEVEL}
    shares = "SELECT count(*) FROM v_results WHERE mode = 'sharded' AND roof_fraction IS NOT NULL"
    assert rows(nights, shares) == [(0,)]


def test_a_slower_driver_is_suspected_and_later_results_confirm_it(nights: Nights) -> None:
    nights.environment = replace(nights.environment, driver_version="23.0")
    nights.pass_by(1, 1.1)
    suspected = [("slower", "suspected", "")] * 4  # two numbers of shards, two metrics
    assert rows(nights, CHANGES) == suspected
    with nights.lab.database.reading() as tx:
        assert waiting(tx, device_ids(tx, [nights.device])) == []
    confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, "SELECT count(*) FROM job WHERE mode = 'paired'") == [(0,)]
    assert rows(nights, CHANGES) == suspected
    nights.pass_by(12, 1.1)
    scanned(nights)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "environment")] * 4


def test_a_suspicion_that_goes_away_is_dismissed_by_later_results(nights: Nights) -> None:
    nights.pass_by(1, 1.3)
    assert {state for _, state, _ in rows(nights, CHANGES)} == {"suspected"}
    nights.pass_by(24)
    scanned(nights)
    assert {state for _, state, _ in rows(nights, CHANGES)} == {"dismissed"}


@one_engine
def test_a_driver_that_compiles_longer_is_suspected_and_confirmed_by_history(
    lab: Lab, environment: Environment
) -> None:
    nights = Nights(lab, lab.add_device(), environment, is_compiled=True)
    nights.pass_by(40)
    assert rows(nights, "SELECT count(*) FROM change_point WHERE state = 'confirmed'") == [(0,)]
    nights.environment = replace(nights.environment, driver_version="23.0")
    nights.pass_by(12, 1.5)
    with nights.lab.database.reading() as tx:
        assert waiting(tx, device_ids(tx, [nights.device])) == []  # no pair compiles
    scanned(nights)
    found = rows(
        nights,
        "SELECT metric, direction, state, cause FROM change_point JOIN series"
        " ON series.id = series_id WHERE state IN ('suspected', 'confirmed')",
    )
    assert found == [(COMPILE, "slower", "confirmed", "environment")]
    notes = "SELECT note FROM change_point_event WHERE state = 'confirmed'"
    assert rows(nights, notes) == [("by history, not measured again",)]


def test_a_suspicion_of_shards_waits_for_results_and_not_for_a_worker(nights: Nights) -> None:
    nights.pass_by(1, 1.3)
    scanned(nights)
    with nights.lab.database.reading() as tx:
        assert due_series(tx, nights.lab.now + 100 * NIGHT, 100) == []
