"""What a bisection does next follows from its steps alone."""

from __future__ import annotations

import pytest

from vkbench_db.upkeep.bisections import FAILED, FOUND, RUNNING, Bisection, BisectionStep, Candidate
from vkbench_detection.bisect import course
from vkbench_detection.bisect.search import Word
from vkbench_detection.bisect.verdicts import MOST_PAIRS, StepJudgement, StepVerdict, judge_step
from vkbench_detection.confirm.pairs import PairResults


def step(position: int, verdict: str, ratio: float | None = None) -> BisectionStep:
    return BisectionStep(
        position=position,
        run=position,
        created_at=0.0,
        finished_at=1.0,
        pairs=8,
        ratio=ratio,
        low=None,
        high=None,
        p=1e-4,
        verdict=verdict,
        note="because",
    )


def bisection(
    *steps: BisectionStep, bundles: int = 5, missing: int = -1, newest_first: bool = False
) -> Bisection:
    candidates = [
        Candidate(sha="", label=f"b{place}", note="it does not compile")
        if place == missing
        else Candidate(sha=f"sha{place}", label=f"b{place}")
        for place in range(bundles)
    ]
    return Bisection(
        id=1,
        created_at=0.0,
        user="ann",
        regression=None,
        devices=("one", "two"),
        case="copy/f32/n4096",
        variant="auto",
        metric="hot",
        measure_seconds=0.1,
        candidates=tuple(candidates),
        state=RUNNING,
        low=0,
        high=bundles - 1,
        finished_at=None,
        note="",
        steps=steps,
        newest_first=newest_first,
    )


def results(
    old: float = 1.0,
    new: float = 1.0,
    pairs: int = 24,
    failed: str = "",
    crashed: str = "",
    pending: int = 0,
    spread: float = 0.001,
) -> PairResults:
    """Pairs of arms that take so long, with a little noise."""
    noise = [1 + spread * (place % 3) for place in range(pairs)]
    return PairResults(
        old=tuple(old * each for each in noise),
        new=tuple(new * each for each in reversed(noise)),
        old_wrong="",
        new_wrong="",
        failed=failed,
        crashed=crashed,
        pending=pending,
    )


def test_a_round_has_a_bundle_a_device_and_the_last_one_first() -> None:
    begun = course.next_round(bisection())
    assert (begun.low, begun.high) == (0, 4)
    assert len(begun.places) == 2
    assert 4 in begun.places


def test_a_small_step_before_the_large_one_counts_as_good() -> None:
    known = bisection(step(4, StepVerdict.BAD, 1.2), step(2, StepVerdict.BAD, 1.02))
    assert course.words_of(known) == {4: Word.BAD, 2: Word.GOOD}


def test_what_cannot_be_judged_is_passed_over_and_named() -> None:
    known = bisection(
        *(step(1, StepVerdict.GOOD, 1.0), step(3, StepVerdict.AMBIGUOUS)),
        step(4, StepVerdict.BAD, 1.2),
        missing=2,
    )
    assert course.next_round(known).places == ()
    ending = course.end_with_culprit(known)
    assert ending.state == FOUND
    assert "b4 is bad" in ending.note
    assert "may also be b2, b3" in ending.note


def test_where_the_last_one_fails_what_runs_is_good_however_slow() -> None:
    known = bisection(
        step(5, StepVerdict.FAILED),
        *(step(1, StepVerdict.BAD, 1.5), step(2, StepVerdict.AMBIGUOUS, 1.01)),
        *(step(3, StepVerdict.WRONG), step(4, StepVerdict.AMBIGUOUS)),  # never measured
        bundles=6,
    )
    words = {1: Word.GOOD, 2: Word.GOOD, 3: Word.GOOD, 4: Word.SKIPPED, 5: Word.BAD}
    assert course.words_of(known) == words
    ending = course.end_with_culprit(known)
    assert ending.note == (
        "b5 is bad: failed: because; the first bad one may also be b4, which cannot be judged"
    )


def test_from_new_to_old_the_first_good_one_is_found() -> None:
    known = (step(4, StepVerdict.WRONG), step(2, StepVerdict.WRONG), step(1, StepVerdict.GOOD, 1.0))
    ending = course.end_with_culprit(bisection(*known, newest_first=True))
    assert ending.note == "b1 is the first good one: b2 is bad: wrong: because"
    known = (step(4, StepVerdict.WRONG), step(3, StepVerdict.WRONG), step(1, StepVerdict.GOOD, 1.0))
    ending = course.end_with_culprit(bisection(*known, missing=2, newest_first=True))
    assert ending.note == (
        "b1 is good; the first good one may also be b2, which cannot be judged: "
        "b3 is bad: wrong: because"
    )


@pytest.mark.parametrize("verdict", [StepVerdict.BAD, StepVerdict.WRONG])
def test_one_that_fails_is_passed_over_where_another_fault_is_looked_for(
    verdict: StepVerdict,
) -> None:
    known = bisection(step(4, verdict, 1.2), step(2, StepVerdict.FAILED))
    assert course.words_of(known) == {4: Word.BAD, 2: Word.SKIPPED}


def test_where_nothing_ran_the_good_one_may_fail_too() -> None:
    ending = course.end_with_culprit(bisection(step(1, StepVerdict.FAILED), bundles=2))
    assert ending.note == (
        "b1 is the first bad one: failed: because; no pair ran, so that b0 may fail too"
    )


def test_a_step_that_fails_waits_for_no_other_pairs() -> None:
    judged = judge_step(results(failed="SIGSEGV", crashed="3 tries crashed", pending=2), 8)
    assert isinstance(judged, StepJudgement)
    assert (judged.verdict, judged.note) == (StepVerdict.FAILED, "3 tries crashed")


@pytest.mark.parametrize("verdict", [StepVerdict.GOOD, StepVerdict.AMBIGUOUS])
def test_an_end_that_is_no_worse_leaves_nothing_to_search(verdict: StepVerdict) -> None:
    ending = course.trouble(bisection(step(4, verdict, 1.0)))
    assert ending is not None
    assert ending.state == FAILED


@pytest.mark.parametrize("verdict", [StepVerdict.BAD, StepVerdict.WRONG, StepVerdict.FAILED])
def test_an_end_that_is_worse_is_searched_for(verdict: StepVerdict) -> None:
    assert course.trouble(bisection(step(4, verdict, 1.2))) is None


def test_pairs_settle_a_step_or_ask_for_more() -> None:
    assert judge_step(results(pairs=4, new=1.1), 4) == 4
    assert judge_step(results(pairs=0, pending=4), 4) == 0
    verdicts = [
        judged.verdict
        for judged in (
            judge_step(results(new=1.1), 24),
            judge_step(results(new=0.9), 24),
            judge_step(results(pairs=0, failed="it crashed"), 4),
        )
        if isinstance(judged, StepJudgement)
    ]
    assert verdicts == [StepVerdict.BAD, StepVerdict.GOOD, StepVerdict.AMBIGUOUS]


def test_a_step_asks_for_so_many_pairs_and_no_more() -> None:
    assert judge_step(results(pairs=24, new=1.012), MOST_PAIRS - 3) == 3
    judged = judge_step(results(pairs=24, new=1.012), MOST_PAIRS)
    assert isinstance(judged, StepJudgement)
    assert judged.verdict is StepVerdict.AMBIGUOUS
    assert judged.note == f"only 24 of {MOST_PAIRS} pairs gave times"


def test_a_bundle_that_is_surely_far_from_the_change_is_good() -> None:
    unclear = results(pairs=48, new=1.03, spread=0.2)
    assert course.least_ratio(bisection()) == 0
    least = course.least_ratio(bisection(step(4, StepVerdict.BAD, 3.2)))
    assert 1.7 < least < 1.8
    judged = judge_step(unclear, MOST_PAIRS, least_ratio=least)
    assert isinstance(judged, StepJudgement)
    assert (judged.verdict, judged.note[:20]) == (StepVerdict.GOOD, "may be a little slow")
    for small in (0.0, 1.02):
        judged = judge_step(unclear, MOST_PAIRS, least_ratio=small)
        assert isinstance(judged, StepJudgement)
        assert judged.verdict is StepVerdict.AMBIGUOUS


def test_pairs_that_leave_the_change_open_do_not_end_a_step() -> None:
    """They scatter by half, and happen to say that the bundle is no slower."""
    assert judge_step(results(pairs=4, spread=0.5), 4) == 4
    assert judge_step(results(pairs=4, spread=0.5), 4, least_ratio=1.16) == 4
    for judged in (
        judge_step(results(pairs=4), 4),
        judge_step(results(pairs=4, spread=0.5), 4, least_ratio=5.0),
        judge_step(results(pairs=48, spread=0.5), 48),
        judge_step(results(pairs=4, spread=0.5), MOST_PAIRS),
        judge_step(results(pairs=4, spread=0.5, failed="it crashed"), 4),
    ):
        assert isinstance(judged, StepJudgement)
        assert judged.verdict is StepVerdict.GOOD
