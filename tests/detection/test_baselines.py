"""Baselines are pinned, found by name, and held against young series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import text

from databases import ENVIRONMENT, Lab, one_engine, put_in_one_series
from vkbench.device import DRIVER_NAME, DRIVER_SHA
from vkbench.errors import UnknownName, UsageError
from vkbench.job import Arm
from vkbench_detection.compare.baselines import Departure, baselines, departures, pin, unpin
from vkbench_detection.compare.references import LatestBefore, ReferenceKind, WholeRun, find

CASE = "add/f32/h1_w1"
DAY = 86_400.0


def history(lab: Lab, values: Sequence[float], *, bundle: str = "", samples: int = 30) -> list[int]:
    """A run a day of one case, all in series 1; says the runs."""
    device = lab.add_device()
    made = []
    for seconds in values:
        made.append(lab.submit(device, [CASE]))
        [job] = lab.pick(device)
        answer = lab.answer(job, seconds=seconds)
        [hot, _] = answer.timings
        near = replace(hot, low=seconds * 0.999, high=seconds * 1.001, count=samples)
        lab.record(replace(answer, timings=(near,), bundle=bundle))
        lab.now += DAY
    place(lab)
    return made


def place(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        tx.execute(text('UPDATE device SET facts = \'{"type": "discrete"}\''))
    put_in_one_series(lab)


def pinned(lab: Lab, name: str, kind: ReferenceKind, asked: object) -> None:
    with lab.database.transaction() as tx:
        pin(tx, name, kind, str(asked), lab.now, "ann")


def ask(lab: Lab) -> list[Departure]:
    with lab.database.reading() as tx:
        return departures(tx, [1])


def test_a_baseline_is_pinned_found_moved_and_forgotten(lab: Lab) -> None:
    first, second = history(lab, [1.0, 2.0], bundle="ab" * 32)
    pinned(lab, "release", ReferenceKind.RUN, first)
    pinned(lab, "code", ReferenceKind.BUNDLE, "abab")
    pinned(lab, "june", ReferenceKind.DATE, "2026-06-01")
    with lab.database.reading() as tx:
        assert [(each.name, each.kind) for each in baselines(tx)] == [
            ("june", "date"), ("code", "bundle"), ("release", "run"),
        ]  # fmt: skip
        both = [find(tx, name).chosen for name in ("release", "baseline:release")]
        assert both == [WholeRun(number=first)] * 2
        assert find(tx, "code").chosen == Arm(name="ab" * 32)
        assert find(tx, "june").name == "baseline june: results until 2026-06-01"
    pinned(lab, "release", ReferenceKind.RUN, second)
    with lab.database.transaction() as tx:
        assert find(tx, "release").chosen == WholeRun(number=second)
        unpin(tx, "release")
        assert len(baselines(tx)) == 2
        with pytest.raises(UnknownName, match="unknown baseline 'release'"):
            unpin(tx, "release")


@pytest.mark.parametrize(
    ("name", "kind", "asked", "error"),
    [
        ("3", ReferenceKind.RUN, "1", "no name for a baseline"),
        ("last", ReferenceKind.RUN, "1", "no name"),
        ("a:b", ReferenceKind.RUN, "1", "no name"),
        ("", ReferenceKind.RUN, "1", "no name"),
        ("good", ReferenceKind.RUN, "77", "unknown run"),
        ("good", ReferenceKind.BUNDLE, "abcd", "unknown bundle"),
        ("good", ReferenceKind.DATE, "soon", "no date"),
        ("good", ReferenceKind.DRIVER, "1", "unknown driver '1'"),
        ("good", ReferenceKind.DEVICE, "1", "a run, a bundle, a build, a driver or a date"),
    ],
)
def test_what_cannot_be_pinned_is_refused(
    lab: Lab, name: str, kind: ReferenceKind, asked: str, error: str
) -> None:
    history(lab, [1.0])
    with lab.database.transaction() as tx, pytest.raises(UsageError, match=error):
        pin(tx, name, kind, asked, 1.0, "")
    with lab.database.reading() as tx:
        assert baselines(tx) == []


def test_a_baseline_wins_over_a_label_and_yields_to_a_kind(lab: Lab) -> None:
    [run] = history(lab, [1.0])
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE run SET label = 'nightly'"))
        assert find(tx, "nightly").name == f"run {run} (nightly)"
        pin(tx, "nightly", ReferenceKind.DATE, "2026-01-01", 1.0, "")
        assert isinstance(find(tx, "nightly").chosen, LatestBefore)
        assert isinstance(find(tx, "run:nightly").chosen, WholeRun)


@one_engine
@pytest.mark.parametrize(
    ("newest", "direction"), [(1.10, 1), (0.90, -1), (1.012, 0), (1.02, 0), (1.03, 1)]
)
def test_a_young_series_is_held_against_its_baseline(
    lab: Lab, newest: float, direction: int
) -> None:
    runs = history(lab, [1.0, 1.001, newest])
    assert ask(lab) == []  # nothing pinned
    pinned(lab, "start", ReferenceKind.RUN, runs[0])
    found = ask(lab)
    assert len(found) == abs(direction)
    for departure in found:
        assert (departure.series, departure.baseline) == (1, "start")
        assert departure.before_job < departure.after_job
        assert departure.ratio.ratio == pytest.approx(newest)
        assert (departure.ratio.ratio > 1) is (direction > 0)


def test_a_young_series_is_held_against_a_driver(lab: Lab) -> None:
    history(lab, [1.0, 1.001])
    through = {DRIVER_NAME: "mine", DRIVER_SHA: "ab" * 6}
    lab.add_device(environment=replace(ENVIRONMENT, extra=through))
    with lab.database.transaction() as tx:
        sha = replace(ENVIRONMENT, extra=through).hash
        first = "UPDATE attempt SET environment = :sha WHERE job_id = 1"
        tx.execute(text(first), {"sha": sha})
        tx.execute(text("UPDATE measurement SET seconds = 2.0, low = 1.99 WHERE job_id = 2"))
    for word, value in (("mine", "ab" * 6), ("22.3.6", "22.3.6")):
        pinned(lab, "start", ReferenceKind.DRIVER, word)
        with lab.database.reading() as tx:
            assert [baseline.value for baseline in baselines(tx)] == [value]
        if word == "mine":
            [departure] = ask(lab)
            assert (departure.before_job, departure.after_job) == (1, 2)


def test_noise_of_the_device_counts_where_the_series_has_none(lab: Lab) -> None:
    runs = history(lab, [1.0, 1.05])
    pinned(lab, "start", ReferenceKind.RUN, runs[0])
    assert len(ask(lab)) == 1
    with lab.database.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO series (id, device_id, case_id, variant, metric, environment_class,"
                " track, noise_kind, sigma) VALUES"
                " (2, 1, 1, 'subgroup', 'cold', 'default', 'main', 'normal', 0.03)"
            )
        )
    assert ask(lab) == []


@one_engine
def test_the_newest_baseline_that_knows_the_series_counts(lab: Lab) -> None:
    runs = history(lab, [1.0, 1.2, 1.2])
    pinned(lab, "old", ReferenceKind.RUN, runs[0])
    lab.now += 1
    pinned(lab, "new", ReferenceKind.RUN, runs[1])
    assert ask(lab) == []
    with lab.database.transaction() as tx:
        unpin(tx, "new")
    [found] = ask(lab)
    assert found.baseline == "old"
    lab.now += 1
    pinned(lab, "newest", ReferenceKind.RUN, runs[2])  # the result itself
    assert ask(lab) == []


@one_engine
def test_dates_and_bundles_are_baselines_too(lab: Lab) -> None:
    history(lab, [1.0, 1.0], bundle="aa" * 32)
    history(lab, [1.3], bundle="bb" * 32)
    pinned(lab, "code", ReferenceKind.BUNDLE, "aaaa")
    assert [each.baseline for each in ask(lab)] == ["code"]
    lab.now += 1
    pinned(lab, "day", ReferenceKind.DATE, "2026-09-22")
    assert [each.baseline for each in ask(lab)] == ["day"]


def test_grown_series_and_flagged_results_are_left_alone(lab: Lab) -> None:
    runs = history(lab, [1.0, 1.5])
    pinned(lab, "start", ReferenceKind.RUN, runs[0])
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET flag = 'throttled' WHERE seconds > 1.4"))
    assert ask(lab) == []
    history(lab, [1.0] * 18 + [1.5])
    assert ask(lab) == []
