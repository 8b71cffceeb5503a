"""Bisections in the database: pairs find the change, any process takes a step, some end unclear."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import inf, isinf, isnan, nan

import pytest

from databases import Lab
from vkbench.job import Job, Outcome
from vkbench.result import Result, Side, Timing, WrongArm, pack_samples
from vkbench_db.ask import queries
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import Bisection, Candidate
from vkbench_detection.bisect.course import note_of, places_to_make
from vkbench_detection.bisect.verdicts import MOST_PAIRS
from vkbench_scheduler.watch.bisect import step, stop

CASE = "copy/f32/n4096"
NOISE = 0.004


@dataclass
class Fleet:
    """Devices on which each bundle takes its time, with some noise; or is wrong, or fails."""

    lab: Lab
    # by bundle; 0: it crashes, below: it is wrong, nan: no figure, inf: an error of the worker's
    seconds: dict[str, float]
    devices: int = 1
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = [self.lab.add_device(f"gpu {number}") for number in range(self.devices)]

    def begin(self, skipped: Sequence[int] = ()) -> int:
        candidates = [
            Candidate(sha="", label=sha, note="does not compile")
            if place in skipped
            else Candidate(sha=sha, label=sha)
            for place, sha in enumerate(self.seconds)
        ]
        with self.lab.database.transaction() as tx:
            return bisections.create(
                tx,
                bisections.NewBisection(
                    devices=self.keys,
                    case=CASE,
                    variant="auto",
                    metric="hot",
                    measure_seconds=0.1,
                    candidates=candidates,
                    user="ann",
                ),
                now=self.lab.now,
            )

    def work(self) -> int:
        """Do what waits; says how many pairs that was."""
        done = 0
        for key in self.keys:
            while jobs := self.lab.pick(key):
                self.lab.record(*map(self.answer, jobs))
                done += len(jobs)
        return done

    def answer(self, job: Job) -> Result:
        old, new = (self.seconds[sha] for sha in job.bundles)
        if not new:
            return self.lab.answer(job, Outcome.CRASHED)
        if isinf(new):
            return self.lab.answer(job, Outcome.ERROR)
        wrong = [arm for arm, time in ((Side.OLD, old), (Side.NEW, new)) if time < 0]
        if wrong:
            bad = self.lab.answer(job, Outcome.WRONG)
            assert bad.verdict
            verdict = replace(bad.verdict, reason="NMSE 0.5", wrong_arm=WrongArm.of(wrong))
            return replace(bad, verdict=verdict)
        timings = () if isnan(new) else self.timings(old, new)
        return replace(self.lab.answer(job), timings=timings)

    def timings(self, old: float, new: float) -> tuple[Timing, ...]:
        found = []
        for name, true in ((Side.OLD, old), (Side.NEW, new)):
            seconds = true * self.chance.gauss(1, NOISE)
            found.append(
                Timing(
                    metric="hot",
                    side=name,
                    seconds=seconds,
                    mad=0.0,
                    low=seconds,
                    high=seconds,
                    confidence=0.95,
                    best=seconds,
                    count=1,
                    launches=1,
                    stop="noise",
                    clock="gpu",
                    bytes_moved=1,
                    flops=1,
                    samples=pack_samples([seconds]),
                )
            )
        return tuple(found)

    def found(self, number: int) -> Bisection:
        with self.lab.database.reading() as tx:
            return bisections.find(tx, number)

    def run(self, number: int) -> Bisection:
        """To its end; the rounds that it took are counted."""
        for _ in range(200):
            step(self.lab.database, self.lab.now)
            if self.found(number).state != bisections.RUNNING:
                assert self.work() == 0  # nothing is left behind
                return self.found(number)
            self.work()
        raise AssertionError("it does not end")


def times(count: int, first_bad: int, factor: float = 1.1) -> dict[str, float]:
    return {f"b{place}": factor if place >= first_bad else 1.0 for place in range(count)}


@pytest.mark.parametrize("devices", [1, 3])
def test_the_first_bad_one_is_found_with_its_evidence(lab: Lab, devices: int) -> None:
    fleet = Fleet(lab, times(16, 11), devices)
    ended = fleet.run(fleet.begin())
    assert (ended.state, ended.low, ended.high) == ("found", 10, 11)
    assert ended.note.startswith("b11 is the first bad one: ratio 1.")
    assert ended.finished_at == lab.now
    by_place = {each.position: each for each in ended.steps}
    assert by_place[11].verdict == by_place[15].verdict == "bad"
    assert by_place[10].verdict == "good"
    evidence = by_place[11]
    assert evidence.low
    assert evidence.ratio
    assert evidence.high
    assert evidence.p
    assert evidence.low < evidence.ratio < evidence.high
    assert evidence.ratio == pytest.approx(1.1, abs=0.01)
    assert evidence.p <= 0.001
    assert len(by_place) <= (5 if devices == 1 else 3 * devices)


def test_it_goes_on_with_nothing_but_the_database(lab: Lab) -> None:
    """A step after every few jobs, by one of several schedulers."""
    fleet = Fleet(lab, times(16, 4))
    number = fleet.begin()
    while fleet.found(number).state == bisections.RUNNING:
        step(lab.database, lab.now)
        step(lab.database, lab.now)
        for job in lab.pick(fleet.keys[0], 1):
            lab.record(fleet.answer(job))
    assert fleet.found(number).high == 4


def test_schedulers_at_once_begin_no_step_twice(lab: Lab) -> None:
    fleet = Fleet(lab, times(16, 9), 2)
    number = fleet.begin()
    with ThreadPoolExecutor(4) as pool:
        while fleet.found(number).state == bisections.RUNNING:
            list(pool.map(lambda _: step(lab.database, lab.now), range(4)))
            fleet.work()
    ended = fleet.found(number)
    assert ended.high == 9
    assert len({each.run for each in ended.steps}) == len(ended.steps)
    with lab.database.reading() as tx:
        assert len(queries.runs(tx, limit=None)) == len(ended.steps)


def test_a_wrong_one_is_bad_and_named_so(lab: Lab) -> None:
    seconds = times(8, 5, 0.5) | {f"b{place}": -1.0 for place in range(5, 8)}
    fleet = Fleet(lab, seconds | {"b3": 1.3})  # a slow one before it is not looked for
    ended = fleet.run(fleet.begin())
    assert (ended.state, ended.high) == ("found", 5)
    assert ended.note == "b5 is the first bad one: wrong: NMSE 0.5"
    assert {each.verdict for each in ended.steps if each.position >= 5} == {"wrong"}


def test_what_does_not_compile_or_fails_is_passed_over(lab: Lab) -> None:
    fleet = Fleet(lab, times(16, 8) | {"b6": 0.0, "b5": 0.0})
    ended = fleet.run(fleet.begin(skipped=[7]))
    assert (ended.state, ended.low, ended.high) == ("found", 4, 8)
    assert "b8 is bad: ratio 1.1" in ended.note
    assert "the first bad one may also be b5, b6, b7, which cannot be judged" in ended.note
    failed = [each for each in ended.steps if each.verdict == "failed"]
    assert [each.position for each in failed] == [5, 6]
    assert {each.note for each in failed} == {"3 tries crashed: because crashed"}


def test_one_that_crashes_is_found_where_the_last_one_does(lab: Lab) -> None:
    seconds = times(8, 5, 0.5) | {f"b{place}": 0.0 for place in range(5, 8)}
    fleet = Fleet(lab, seconds | {"b3": 1.3})  # a slow one before it is not looked for
    ended = fleet.run(fleet.begin())
    assert (ended.state, ended.high) == ("found", 5)
    assert ended.note == "b5 is the first bad one: failed: 3 tries crashed: because crashed"


def test_a_small_step_before_the_large_one_is_not_it(lab: Lab) -> None:
    fleet = Fleet(
        lab, {f"b{place}": 1.0 + 0.03 * (place > 2) + 0.2 * (place > 9) for place in range(16)}
    )
    bisection = fleet.run(fleet.begin())
    assert bisection.high == 10
    notes = {step.position: note_of(bisection, step) for step in bisection.steps}
    went_on = [place for place, note in notes.items() if "less than half of the whole" in note]
    assert sorted(went_on) == [place for place in sorted(notes) if 2 < place < 10]


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        ({"b0": 1.0, "b1": 1.0, "b2": 1.0}, "b2 is no slower than the good one: ratio"),
        ({"b0": 1.0, "b1": 1.0, "b2": 0.5}, "b2 is no slower than the good one: ratio 0.5"),
        ({"b0": 1.0, "b1": 1.0, "b2": inf}, "it is unclear whether b2 is worse"),
        ({"b0": -1.0, "b1": 1.0, "b2": 1.1}, "the good one is wrong itself: NMSE 0.5"),
    ],
)
def test_where_there_is_nothing_to_find_it_says_so(
    lab: Lab, seconds: dict[str, float], why: str
) -> None:
    fleet = Fleet(lab, seconds)
    ended = fleet.run(fleet.begin())
    assert ended.state == "failed"
    assert ended.note.startswith(why)


def test_small_changes_take_more_pairs(lab: Lab) -> None:
    fleet = Fleet(lab, times(3, 2, 1.018), chance=random.Random(5))
    fleet.seconds["b1"] = 1.009
    ended = fleet.run(fleet.begin())
    assert max(each.pairs for each in ended.steps) > 8
    assert max(each.pairs for each in ended.steps) <= 48


def begin_unmade(fleet: Fleet) -> int:
    """A bisection of which only both ends are made."""
    number = fleet.begin()
    with fleet.lab.database.transaction() as tx:
        for place in range(1, len(fleet.seconds) - 1):
            bisections.change_candidate(tx, number, place)
    return number


def run_and_make(fleet: Fleet, number: int, built: dict[int, str]) -> tuple[Bisection, list[int]]:
    """A bisection to its end, and which candidates were made; "" is one that does not build."""
    made: list[int] = []
    for _ in range(100):
        step(fleet.lab.database, fleet.lab.now)
        known = fleet.found(number)
        if known.state != bisections.RUNNING:
            return known, made
        fleet.work()
        for place in places_to_make(known):
            made.append(place)
            why = "" if built[place] else "does not build"
            with fleet.lab.database.transaction() as tx:
                bisections.change_candidate(tx, number, place, sha=built[place], note=why)
    raise AssertionError("it does not end")


def test_candidates_are_made_when_their_turn_comes(lab: Lab) -> None:
    fleet = Fleet(lab, times(64, 41))
    built = {place: f"b{place}" for place in range(64)}
    found, made = run_and_make(fleet, begin_unmade(fleet), built)
    assert (found.state, found.low, found.high) == ("found", 40, 41)
    assert len(made) == len(set(made)) <= 7


def test_candidates_of_the_same_files_are_measured_once(lab: Lab) -> None:
    """The one after the change has the files of the last one, one before it those of the first."""
    fleet = Fleet(lab, times(8, 5))
    built = {place: f"b{place}" for place in range(8)} | {4: "b0", 5: "b7", 6: ""}
    found, made = run_and_make(fleet, begin_unmade(fleet), built)
    assert (found.state, found.low, found.high) == ("found", 4, 5)
    assert found.note.startswith("b5 is the first bad one: ratio 1.1")
    assert made == [4, 6, 5]
    assert [each.position for each in found.steps] == [7]


def test_a_stopped_one_leaves_no_jobs(lab: Lab) -> None:
    fleet = Fleet(lab, times(16, 4))
    number = fleet.begin()
    step(lab.database, lab.now)
    stop(lab.database, number, "ann", lab.now)
    stop(lab.database, number, "bob", lab.now)
    assert (fleet.found(number).state, fleet.found(number).note) == ("failed", "stopped by ann")
    assert fleet.work() == 0


def test_one_that_cannot_go_on_stops_no_other(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(lab, times(4, 2), 1)
    broken, other = fleet.begin(), fleet.begin()
    with lab.database.transaction() as tx:
        bisections.change(tx, broken, devices={"keys": ["gone"]})
    step(lab.database, lab.now)
    assert [record.message for record in caplog.records] == ["bisection_failed"]
    assert len(fleet.found(other).steps) == 1


def test_pairs_that_pass_without_a_figure_are_not_asked_for_for_ever(lab: Lab) -> None:
    ended = Fleet(lab, {"good": 1.0, "between": 1.0, "bad": nan})
    found = ended.run(ended.begin())
    assert found.state == bisections.FAILED
    assert found.steps[0].pairs == MOST_PAIRS
    assert f"0 of {MOST_PAIRS} pairs gave times" in found.note


def test_a_bundle_whose_pairs_give_no_figure_is_passed_over(lab: Lab) -> None:
    fleet = Fleet(lab, {"good": 1.0, "mute": nan, "bad": 1.1})
    found = fleet.run(fleet.begin())
    assert found.state == bisections.FOUND
    assert "may also be mute, which cannot be judged" in found.note
