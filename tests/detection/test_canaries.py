"""Canaries: stored once, held against their own history; what is timed after one that is off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select

from databases import ENVIRONMENT, Lab
from vkbench.calibration import CANARY_AT, CANARY_SECONDS
from vkbench_db import schema
from vkbench_detection.compare.comparison import compare
from vkbench_detection.compare.drift import drifts
from vkbench_detection.compare.references import find
from vkbench_detection.find.screening import screen
from vkbench_detection.series import canaries, placing
from vkbench_detection.series.canaries import DEVICE_OFF, LEAST, CanaryReading


def canary(at: float, seconds: float, device: int = 1, environment: str = "e") -> CanaryReading:
    return CanaryReading(at=at, device_id=device, environment=environment, seconds=seconds)


def steady(count: int) -> list[float]:
    """Of 1 ms, half a percent apart."""
    return list(1e-3 * np.exp(np.random.default_rng(5).normal(0, 0.005, count)))


def stored(lab: Lab) -> list[tuple[float, float | None, bool]]:
    table = schema.canary.c
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(table.seconds, table.deviation, table.is_off).order_by(table.measured_at)
        )
        return [(row.seconds, row.deviation, row.is_off) for row in rows]


def run_one(lab: Lab, device: str, seconds: float, at: float) -> None:
    """A timed job whose result tells of a canary."""
    lab.submit(device, 1)
    [job] = lab.pick(device)
    told = {CANARY_SECONDS: seconds, CANARY_AT: at}
    lab.record(replace(lab.answer(job), telemetry=told))


def place(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)


def flags(lab: Lab) -> list[str]:
    measurement = schema.measurement.c
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(measurement.flag).where(measurement.metric == "hot").order_by(measurement.job_id)
        )
        return list(rows.scalars())


def test_a_device_off_its_own_history_is_told_and_its_timings_are_flagged(lab: Lab) -> None:
    device = lab.add_device()
    for seconds in [*steady(LEAST), 1.001e-3, 1.2e-3, 1e-3]:
        lab.now += 20
        run_one(lab, device, seconds, lab.now - 0.876543)
    place(lab)
    found = stored(lab)
    assert [off for _, _, off in found] == [False] * (LEAST + 1) + [True, False]
    assert [sigmas is None for _, sigmas, _ in found] == [True] * LEAST + [False] * 3
    assert (found[LEAST + 1][1] or 0) > 10
    assert flags(lab) == [""] * (LEAST + 1) + [DEVICE_OFF, ""]


def test_all_results_of_a_batch_share_its_canary_and_it_is_stored_once(lab: Lab) -> None:
    device = lab.add_device()
    for number, seconds in enumerate(steady(LEAST)):
        run_one(lab, device, seconds, lab.now + number)
    for _ in range(3):
        run_one(lab, device, 0.9e-3, lab.now + 100.7654321)
        place(lab)
    run_one(lab, device, 0.9e-3, lab.now + 100.7654321)
    place(lab)
    assert len(stored(lab)) == LEAST + 1
    assert flags(lab) == [""] * LEAST + [DEVICE_OFF] * 4


def test_flagged_timings_are_not_screened(lab: Lab) -> None:
    device = lab.add_device()
    for number, seconds in enumerate([*steady(LEAST), 2e-3]):
        run_one(lab, device, seconds, lab.now + number)
    place(lab)
    with lab.database.transaction() as tx:
        ids = set(tx.execute(select(schema.series.c.id)).scalars())
        screen(tx, ids, lab.now)
        states = tx.execute(select(schema.series.c.screen)).scalars().all()
    assert [len(state["jobs"]) for state in states if state] == [LEAST] * 2


def test_history_is_a_device_s_and_an_environment_s_own(lab: Lab) -> None:
    lab.add_device("one")
    lab.add_device("two")
    with lab.database.transaction() as tx:
        canaries.note(tx, [canary(n, s) for n, s in enumerate(steady(20), 1)])
        assert canaries.note(tx, [canary(50, 2e-3)]) == {(1, 50)}
        assert not canaries.note(tx, [canary(51, 2e-3, device=2)])
        assert not canaries.note(tx, [canary(52, 2e-3, environment="another")])
        assert canaries.note(tx, [canary(50, 2e-3), canary(51, 2e-3, device=2)]) == {(1, 50)}


def test_a_device_that_stays_changed_is_at_home_there_in_time(lab: Lab) -> None:
    lab.add_device()
    with lab.database.transaction() as tx:
        canaries.note(tx, [canary(n, s) for n, s in enumerate(steady(100), 1)])
        later = [canary(n, 1.1 * s) for n, s in enumerate(steady(120), 200)]
        off = canaries.note(tx, later)
    assert 20 <= len(off) <= 60
    assert max(at for _, at in off) < 260


@pytest.mark.parametrize("seconds", [1.005e-3, 0.995e-3, 1.008e-3])
def test_the_smallest_sigma_is_that_of_all_statistics(seconds: float) -> None:
    history = [1e-3] * 30
    found = canaries.deviation(seconds, history)
    assert found == pytest.approx(np.log(seconds / 1e-3) / 0.003)
    assert abs(found or 0) < 3


def test_telemetry_without_one_tells_of_none() -> None:
    assert canaries.reading_in(1, "e", {"sm_mhz": 1980.0}) is None
    assert canaries.reading_in(1, "", {CANARY_AT: 1.0, CANARY_SECONDS: 1.0}) is None
    assert canaries.reading_in(1, "e", {CANARY_AT: 1.0, CANARY_SECONDS: 0.0}) is None
    assert canaries.reading_in(1, "e", {CANARY_AT: 1.00049, CANARY_SECONDS: 2.0}) == canary(
        1.0, 2.0
    )


def test_canaries_from_the_first_result_to_the_last_speak_of_a_comparison(lab: Lab) -> None:
    """Three cases a day apart on each side, in no order, and canaries beside each of them."""
    device, noon, runs = lab.add_device(), lab.now, []
    for seconds, days in ((1e-3, (1, 0, 2)), (2e-3, (11, 10, 12))):
        runs.append(lab.submit(device, 3))
        for job, day in zip(lab.pick(device, 3), days, strict=True):
            lab.now = noon + 86_400 * day
            lab.record(lab.answer(job))
            with lab.database.transaction() as tx:
                canaries.note(tx, [canary(lab.now, seconds, 1, ENVIRONMENT.hash)])
    with lab.database.reading() as tx:
        found = compare(tx, *(find(tx, str(run)) for run in runs))
        [drift] = drifts(tx, found.pairs)
    assert (drift.ratio, drift.count) == (2.0, 3)
