"""A side of a comparison pools what ran the same as its newest job, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert

from databases import ENVIRONMENT, Lab, one_engine
from vkbench.job import JobState, Outcome
from vkbench.messages.wire import Announcement
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.compare import result_sets
from vkbench_detection.compare.compared import Comparison, Word
from vkbench_detection.compare.comparison import compare
from vkbench_detection.compare.latest_changes import changes
from vkbench_detection.compare.references import find
from vkbench_detection.compare.result_sets import MOST_READ
from vkbench_detection.compare.sides import Side, interval
from vkbench_detection.steps import detect

CASE = "add/f32/h1_w1"
OLD_KERNEL, NEW_KERNEL = "0a" * 32, "0b" * 32
RAN = ("kernel", "bundle", "environment")
NEWER_DRIVER = replace(ENVIRONMENT, driver_version="23.0")


def time_case(
    lab: Lab,
    device: str,
    seconds: float,
    *,
    outcome: Outcome = Outcome.PASSED,
    spread: float = 0.01,
    samples: int = 30,
    **ran: Any,
) -> int:
    """A run of the case that ends a day after the one before; `ran` is what it ran."""
    run = lab.submit(device, [CASE])
    while jobs := lab.pick(device):  # a crashed one is tried again
        for job in jobs:
            answer = lab.answer(job, outcome, seconds=seconds)
            timings = tuple(
                replace(
                    timing,
                    low=timing.seconds * (1 - spread),
                    high=timing.seconds * (1 + spread),
                    count=samples,
                )
                for timing in answer.timings
            )
            lab.record(replace(answer, timings=timings, **ran))
    lab.now += 86_400
    return run


def ask(lab: Lab, old: str, new: str) -> Comparison:
    with lab.database.reading() as tx:
        return compare(tx, find(tx, old), find(tx, new), metrics=["hot"])


def sides(lab: Lab, old: str, new: str) -> tuple[Side, Side]:
    [pair] = ask(lab, old, new).pairs
    return pair.old, pair.new


@pytest.fixture
def device(lab: Lab) -> str:
    """A device with two drivers."""
    with lab.database.transaction() as tx:
        for environment in (ENVIRONMENT, NEWER_DRIVER):
            announcement = Announcement(
                worker="w", facts=lab.facts("llvmpipe", "alpha"), environment=environment, bundle=""
            )
            store.register_device(tx, announcement, lab.now)
    return lab.add_device()


def test_a_driver_is_not_blamed_for_what_a_kernel_did(lab: Lab, device: str) -> None:
    """The kernel steps by 9 % in the middle of the old driver; the driver changes nothing."""
    for night in range(8):
        time_case(lab, device, (1 + night % 2 / 500) * 1e-3, kernel_sha=OLD_KERNEL)
    for night in range(4):
        time_case(lab, device, (1.09 + night % 2 / 500) * 1e-3, kernel_sha=NEW_KERNEL)
    ran: dict[str, Any] = {"kernel_sha": NEW_KERNEL, "environment": NEWER_DRIVER.hash}
    for night in range(12):
        time_case(lab, device, (1.09 + night % 2 / 500) * 1e-3, **ran)
    [pair] = ask(lab, "driver:22.3.6", "driver:23.0").pairs
    assert pair.word is Word.SAME
    assert (len(pair.old.values), pair.old.left_out, pair.old.left_out_for) == (4, 8, "kernel")
    assert (len(pair.new.values), pair.new.left_out) == (12, 0)
    with lab.database.reading() as tx:
        [change] = changes(tx, device, find(tx, "driver:22.3.6"), "hot")
    assert change.ratio == pytest.approx(1.0, abs=0.003)


@pytest.mark.parametrize("most_read", [MOST_READ, 5], ids=["all are read", "SQL ranks them"])
def test_of_a_driver_the_newest_twelve_results_count(
    lab: Lab, device: str, most_read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_sets, "MOST_READ", most_read)
    for night in range(15):
        time_case(lab, device, (1 + night / 1000) * 1e-3, kernel_sha=OLD_KERNEL)
    time_case(lab, device, 1e-3, kernel_sha=OLD_KERNEL, environment=NEWER_DRIVER.hash)
    old, _ = sides(lab, "driver:22.3.6", "driver:23.0")
    assert old.values == pytest.approx([(1 + night / 1000) * 1e-3 for night in range(3, 15)])


@one_engine
@pytest.mark.parametrize(
    ("ran", "said"),
    [
        ({"variant": "portable"}, "code path"),
        ({"settings": "tile=8"}, "settings"),
        ({"environment": NEWER_DRIVER.hash}, "environment"),
        ({"kernel_sha": NEW_KERNEL, "settings": "tile=8"}, "kernel, settings"),
    ],
)
def test_what_ran_otherwise_is_left_out(
    lab: Lab, device: str, ran: dict[str, Any], said: str
) -> None:
    time_case(lab, device, 9e-3, bundle="ab" * 32, **ran)
    for _ in range(2):
        time_case(lab, device, 1e-3, bundle="ab" * 32)
    [side, _] = sides(lab, "bundle:abab", "last")
    assert (side.value, side.left_out, side.left_out_for) == (1e-3, 1, said)


@one_engine
def test_verdicts_are_of_what_the_newest_ran(lab: Lab, device: str) -> None:
    for outcome, kernel in ((Outcome.WRONG, OLD_KERNEL), (Outcome.PASSED, NEW_KERNEL)):
        time_case(lab, device, 1e-3, outcome=outcome, kernel_sha=kernel, bundle="ab" * 32)
    last = str(time_case(lab, device, 1e-3, kernel_sha=NEW_KERNEL))
    assert ask(lab, "bundle:abab", last).changes == ()
    time_case(lab, device, 1e-3, outcome=Outcome.WRONG, kernel_sha=NEW_KERNEL, bundle="ab" * 32)
    time_case(lab, device, 1e-3, kernel_sha=NEW_KERNEL, bundle="ab" * 32)
    [change] = ask(lab, last, "bundle:abab").changes
    assert (change.old, change.new) == (JobState.PASSED, JobState.WRONG)


@one_engine
def test_results_before_a_confirmed_change_are_left_out(lab: Lab, device: str) -> None:
    """A host that became slower is no other kernel, and no result names it."""
    for seconds in (1e-3, 1e-3, 1.3e-3, 1.3e-3, 1.3e-3):
        time_case(lab, device, seconds, bundle="ab" * 32)
    detect(lab.database, lab.now)
    store_change(lab, "screen")
    [side, _] = sides(lab, "bundle:abab", "5")
    assert (side.value, len(side.values)) == (1.3e-3, 3)
    assert (side.left_out, side.left_out_for) == (2, "level")


@one_engine
def test_results_before_a_decay_are_of_the_same_level(lab: Lab, device: str) -> None:
    """It is the sum of what was below every threshold: nothing began with its last result."""
    for _ in range(5):
        time_case(lab, device, 1e-3, bundle="ab" * 32)
    detect(lab.database, lab.now)
    store_change(lab, "decay")
    [side, _] = sides(lab, "bundle:abab", "5")
    assert (len(side.values), side.left_out) == (5, 0)


def store_change(lab: Lab, method: str) -> None:
    """A confirmed change that a method found between the jobs 2 and 3."""
    with lab.database.transaction() as tx:
        series = sides(lab, "1", "5")[1].series
        change = {"series_id": series, "before_job": 2, "after_job": 3, "state": "confirmed"}
        said = {"method": method, "direction": "slower", "ratio": 1.3, "found_at": lab.now}
        ran = {f"{when}_{of}": "" for when in ("before", "after") for of in RAN}
        tx.execute(insert(schema.change_point).values(**change, **said, **ran))


@one_engine
def test_results_that_do_not_say_what_they_ran_make_no_pure_side(lab: Lab, device: str) -> None:
    for _ in range(3):
        time_case(lab, device, 1e-3, kernel_sha="", bundle="ab" * 32)
    last = str(time_case(lab, device, 1e-3))
    [old, new] = sides(lab, "bundle:abab", last)
    assert (old.is_pure, new.is_pure) == (False, True)


@one_engine
@pytest.mark.parametrize(("spread", "word"), [(0.049, Word.SLOWER), (0.051, Word.TOO_NOISY)])
def test_a_side_known_to_no_better_than_5_percent_has_no_ratio(
    lab: Lab, device: str, spread: float, word: Word
) -> None:
    time_case(lab, device, 1e-3)
    time_case(lab, device, 2e-3, spread=spread)
    found = ask(lab, "1", "2")
    [pair] = found.pairs
    assert (pair.word, pair.ratio is None) == (word, word is Word.TOO_NOISY)
    assert (found.mean is None) == (word is Word.TOO_NOISY)


@one_engine
def test_one_sample_a_side_says_nothing(lab: Lab, device: str) -> None:
    time_case(lab, device, 14.1e-6, spread=0.0, samples=1)
    time_case(lab, device, 28.2e-6, spread=0.0, samples=1)
    found = ask(lab, "1", "2")
    assert [pair.word for pair in found.pairs] == [Word.TOO_FEW]
    assert found.counting == ()


def test_the_interval_of_few_results_is_their_own_and_of_many_by_their_order() -> None:
    few, many = [1.0, 1.1, 1.2], [1.0 + n / 100 for n in range(12)]
    lows, highs = ([factor * value for value in few] for factor in (0.9, 1.1))
    assert interval(few, lows, highs) == (0.9, pytest.approx(1.32))
    wild = [*many[:-1], 99.0]  # as it was the largest before
    for values in (many, wild):
        assert interval(values, values, values) == (values[2], values[9])
    assert interval(many[:6], many[:6], many[:6]) == (1.0, 1.05)
