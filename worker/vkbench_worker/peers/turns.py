"""Times a peer and our kernel in turns, or two builds of a program, as one result.

The order is theirs, ours, theirs, with twice as long a visit in the middle, so that what drifts
meanwhile meets both alike; on a CPU, which others use too, it is gone through several times. It is
gone through again until the medians of both sides are known well, or the time for that is over.
Both are judged at every visit. The peer begins, so that a case that it cannot do costs nothing
else. Builds take the turns of a pair, whose two visits in a row are one, too: each visit waits for
the clock, which takes longer than the samples. They keep what they checked from visit to visit.

A backend compiles what a case needs when it first meets it, which may take ten times as long as a
visit. So both builds of a pair first check a case that is new to one of them, at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.job import AUTO, Arm, Job, Mode, Outcome, pair_of
from vkbench.result import ARMS, HOT, Result, Side, Timing, unpack_samples
from vkbench_worker.phases import PREFIX, sum_phases
from vkbench_worker.timing.measure import FEW, few
from vkbench_worker.timing.statistics import half_width
from vkbench_worker.timing.summary import Sampling, timing_of
from vkbench_worker.timing.visits import blamed_verdict, order, reason_of

_CPU_ROUNDS: Final = 3
KNOWN_WELL: Final = 0.02  # half the interval of a median, as a share of it
MOST_TIMES: Final = 4  # as many rounds as were asked for, however badly the medians are known
_OURS, _THEIRS = "ours", "theirs"
_CHECKS: Final = PREFIX + "checks"  # before the turns

Ask = Callable[[Job], Result | None]  # None: whoever wanted the answer does not want it any more
AskArm = Callable[[Arm, Job], Result | None]


def in_turns(job: Job, ask_runner: Ask, ask_peer: Ask, *, rounds: int = 1) -> Result | None:
    """The result of a job of a peer: the peer's timing and verdict, beside our timing.

    Without both there is no timing: the result says which side could not, or was wrong. Only our
    own failures count as such; a peer's are the reason of a skipped job.
    """
    visit = replace(_visit_of(job, rounds), variant=AUTO)
    asks = {_OURS: ask_runner, _THEIRS: ask_peer}
    turns = _take_turns(job, visit, asks, (_THEIRS, _OURS, _OURS, _THEIRS), rounds)
    if turns is None:
        return None
    if turns.ended_by:
        answer = turns.answers[turns.ended_by][-1]
        return _without(job, answer, of_peer=turns.ended_by == _THEIRS)
    return _together(job, turns.answers[_OURS], turns.answers[_THEIRS])


def rounds_on(facts: DeviceFacts) -> int:
    """How often both sides take turns on a device at least."""
    return _CPU_ROUNDS if facts.type == "cpu" else 1


def pair_arms(job: Job, ask: AskArm, facts: DeviceFacts, *, is_new: bool = False) -> Result | None:
    """The result of a pair on a device; `ask` has an arm of it do a visit."""
    old, new = partial(ask, pair_of(job).old), partial(ask, job.arm)
    asks: dict[str, Ask] = {Side.OLD: old, Side.NEW: new}
    return pair_in_turns(job, asks, rounds=rounds_on(facts), is_new=is_new)


def pair_in_turns(
    job: Job, asks: Mapping[str, Ask], *, rounds: int = 1, is_new: bool = False
) -> Result | None:
    """The result of a pair of builds: their timings, or which of them is wrong or failed.

    A case that is new to one of them is checked by both before they take turns.
    """
    visit, began = replace(_visit_of(job, rounds), pair=None), time.monotonic()
    if is_new and (late := _check_together(visit, asks)):
        return late
    checked = time.monotonic() - began
    turns = _take_turns(job, visit, asks, order(job), rounds)
    if turns is None:
        return None
    answers = turns.answers
    if turns.ended_by:
        answer = answers[turns.ended_by][-1]
        if answer.outcome is Outcome.WRONG:
            return _blame(job, visit, answers, asks)
        return _fail(answer, turns.ended_by)
    visits = [*answers[Side.OLD], *answers[Side.NEW]]
    return replace(
        answers[Side.NEW][-1],
        timings=tuple(_merge_timings(Side(side), answers[side]) for side in ARMS),
        started=min(visit.started for visit in visits) - checked,
        seconds=sum(visit.seconds for visit in visits) + checked,
        telemetry={
            **answers[Side.NEW][-1].telemetry,
            **sum_phases(visit.telemetry for visit in visits),
            _CHECKS: checked,
        },
    )


def _check_together(visit: Job, asks: Mapping[str, Ask]) -> Result | None:
    """Have both builds check a case at the same time; a result only if one did not end in time.

    Whatever else goes wrong does so again at a visit, unless there was no memory for both at once.
    """
    check = replace(visit, mode=Mode.CORRECTNESS)
    with ThreadPoolExecutor(len(asks)) as pool:
        answers = pool.map(lambda ask: ask(check), asks.values())
    for side, answer in zip(asks, answers, strict=True):
        if answer and answer.outcome is Outcome.TIMED_OUT:
            return _fail(answer, side)
    return None


def _fail(answer: Result, side: str) -> Result:
    """The result of a pair whose one build failed."""
    return replace(answer, timings=(), reason=f"{side}: {answer.reason}")


def _blame(
    job: Job, visit: Job, answers: Mapping[str, Sequence[Result]], asks: Mapping[str, Ask]
) -> Result | None:
    """The result of a pair of which one build was wrong at its last visit: the other is asked."""
    last: dict[str, Result] = {}
    for side in ARMS:
        answer = answers[side][-1] if answers[side] else asks[side](visit)
        if answer is None:
            return None
        last[side] = answer
    verdict = blamed_verdict(
        {side: answer.verdict for side, answer in last.items() if answer.verdict}
    )
    return replace(
        last[Side.NEW],
        outcome=Outcome.WRONG,
        reason=reason_of(verdict),
        verdict=verdict,
        timings=(),
    )


@dataclass(frozen=True, kw_only=True)
class Turns:
    """What each side answered at its visits."""

    answers: Mapping[str, Sequence[Result]]
    ended_by: str  # side whose last answer is no timing; "" if all are


def _take_turns(
    job: Job, visit: Job, asks: Mapping[str, Ask], turns: Sequence[str], rounds: int
) -> Turns | None:
    """Visit the sides in turns until both medians are known, or one has no timing.

    Turns of one side that follow each other are one visit.
    """
    answers: dict[str, list[Result]] = {side: [] for side in asks}
    together = [(side, len(list(row))) for side, row in groupby(turns)]
    done = 0
    while done < rounds or _needs_more(job, answers, done, rounds):
        for side, visits in together:
            seconds = visit.measure_seconds * visits
            answer = asks[side](replace(visit, measure_seconds=seconds))
            if answer is None:
                return None
            answers[side].append(answer)
            if answer.outcome is not Outcome.PASSED:
                return Turns(answers=answers, ended_by=side)
        done += 1
    return Turns(answers=answers, ended_by="")


def _visit_of(job: Job, rounds: int) -> Job:
    """What is asked of a side at each of its visits, of which a round has two."""
    seconds = job.measure_seconds / (2 * rounds)
    return replace(job, mode=Mode.PERFORMANCE, hot_only=True, measure_seconds=seconds)


def _needs_more(job: Job, answers: Mapping[str, Sequence[Result]], done: int, rounds: int) -> bool:
    """Whether a side's median is known too badly, and another round fits the time."""
    spent = sum(visit.seconds for visits in answers.values() for visit in visits)
    if done >= MOST_TIMES * rounds or spent * (done + 1) / done > job.limit_seconds:
        return False
    return any(half_width(_balance_samples(visits)) > KNOWN_WELL for visits in answers.values())


def _without(job: Job, answer: Result, *, of_peer: bool) -> Result:
    """The result of a job of which one side has no timing."""
    if not of_peer:
        return replace(answer, timings=(), reason=f"ours: {answer.reason}")
    right = answer.outcome is Outcome.SKIPPED
    reason = answer.reason if right else f"{job.variant} {answer.outcome}: {answer.reason}"
    return replace(
        answer,
        outcome=Outcome.SKIPPED,
        reason=reason,
        verdict=None,
        timings=(),
        variant=job.variant,
    )


def _together(job: Job, runner_visits: Sequence[Result], peer_visits: Sequence[Result]) -> Result:
    last, mine = peer_visits[-1], runner_visits[-1]
    return replace(
        last,
        variant=job.variant,
        settings=f"{last.settings},ours={mine.variant}",
        kernel_sha=mine.kernel_sha,
        bundle=mine.bundle,
        timings=(
            _merge_timings(Side.THEIRS, peer_visits),
            _merge_timings(Side.OURS, runner_visits),
        ),
        started=peer_visits[0].started,
        seconds=sum(visit.seconds for visit in (*runner_visits, *peer_visits)),
        telemetry={
            **mine.telemetry,
            **sum_phases(visit.telemetry for visit in (*runner_visits, *peer_visits)),
        },
    )


def _merge_timings(side: Side, visits: Sequence[Result]) -> Timing:
    """One timing of several visits."""
    timings = [visit.timings[0] for visit in visits]
    samples = _balance_samples(visits)
    first = timings[0]
    how = Sampling(
        metric=HOT,
        side=side,
        launches=first.launches,
        stop=max(timing.stop for timing in timings),  # time rather than noise, if any was
        clock=first.clock,
        bytes_moved=first.bytes_moved,
        flops=first.flops,
        warnings=_warnings(timings, len(samples)),
    )
    return timing_of(samples, how)


def _balance_samples(visits: Sequence[Result]) -> list[float]:
    """The samples of several visits: as many of each, so that each weighs as much."""
    visit_samples = [unpack_samples(visit.timings[0].samples) for visit in visits]
    least = min(map(len, visit_samples))
    return [sample for samples in visit_samples for sample in samples[:least]]


def _warnings(visits: Sequence[Timing], samples: int) -> tuple[str, ...]:
    """Warnings of all visits, each once; few samples of one visit may be enough of all."""
    words = dict.fromkeys(word for visit in visits for word in visit.warnings)
    return (*few(samples), *(word for word in words if not word.endswith(FEW)))
