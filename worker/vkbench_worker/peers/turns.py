"""Times a peer and our kernel in turns, as one result.

The order is theirs, ours, ours, theirs, so that what drifts meanwhile meets both alike; on a CPU,
which others use too, it is gone through several times. It is gone through again until the medians
of both sides are known well, or the time for that is over. Both are judged at every visit. The
peer begins, so that a case that it cannot do costs nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vkbench.job import AUTO, Job, Mode, Outcome
from vkbench.result import HOT, Result, Side, Timing, unpack_samples
from vkbench_worker.phases import PREFIX
from vkbench_worker.timing.measure import FEW, few
from vkbench_worker.timing.statistics import half_width
from vkbench_worker.timing.summary import timing_of

CPU_ROUNDS: Final = 3
KNOWN_WELL: Final = 0.02  # half the interval of a median, as a share of it
MOST_TIMES: Final = 4  # as many rounds as were asked for, however badly the medians are known
_OURS, _THEIRS = "ours", "theirs"

Ask = Callable[[Job], Result | None]  # None: whoever wanted the answer does not want it any more


def in_turns(job: Job, ours: Ask, theirs: Ask, *, rounds: int = 1) -> Result | None:
    """The result of a job of a peer: the peer's timing and verdict, beside our timing.

    Without both there is no timing: the result says which side could not, or was wrong. Only our
    own failures count as such; a peer's are the reason of a skipped job.
    """
    visit = replace(
        job,
        mode=Mode.PERFORMANCE,
        variant=AUTO,
        hot_only=True,
        measure_seconds=job.measure_seconds / (2 * rounds),
    )
    answers: dict[str, list[Result]] = {_OURS: [], _THEIRS: []}
    done = 0
    while done < rounds or _needs_more(job, answers, done, rounds):
        for name in (_THEIRS, _OURS, _OURS, _THEIRS):
            answer = (ours if name == _OURS else theirs)(visit)
            if answer is None:
                return None
            answers[name].append(answer)
            if answer.outcome is not Outcome.PASSED:
                return _without(job, answer, of_peer=name == _THEIRS)
        done += 1
    return _together(job, answers[_OURS], answers[_THEIRS])


def _needs_more(job: Job, answers: Mapping[str, Sequence[Result]], done: int, rounds: int) -> bool:
    """Whether a side's median is known too badly, and another round fits the time."""
    spent = sum(visit.seconds for visits in answers.values() for visit in visits)
    if done >= MOST_TIMES * rounds or spent * (done + 1) / done > job.limit_seconds:
        return False
    return any(half_width(_balance_samples(visits)) > KNOWN_WELL for visits in answers.values())


def _without(job: Job, answer: Result, *, of_peer: bool) -> Result:
    """What became of a job of which one side has no timing."""
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


def _together(job: Job, ours: Sequence[Result], theirs: Sequence[Result]) -> Result:
    last, mine = theirs[-1], ours[-1]
    return replace(
        last,
        variant=job.variant,
        settings=f"{last.settings},ours={mine.variant}",
        kernel_sha=mine.kernel_sha,
        bundle=mine.bundle,
        timings=(_merge_timings(Side.THEIRS, theirs), _merge_timings(Side.OURS, ours)),
        started=theirs[0].started,
        seconds=sum(each.seconds for each in (*ours, *theirs)),
        telemetry={**mine.telemetry, **_sum_phases((*ours, *theirs))},
    )


def _sum_phases(visits: Sequence[Result]) -> Mapping[str, float]:
    """The phases of all visits, which add up to what the job spent."""
    found: dict[str, float] = defaultdict(float)
    for visit in visits:
        for name, value in visit.telemetry.items():
            if name.startswith(PREFIX):
                found[name] += value
    return found


def _merge_timings(side: Side, visits: Sequence[Result]) -> Timing:
    """One timing of several visits."""
    timings = [visit.timings[0] for visit in visits]
    samples = _balance_samples(visits)
    first = timings[0]
    timing = timing_of(
        samples,
        metric=HOT,
        launches=first.launches,
        stop=max(timing.stop for timing in timings),  # time rather than noise, if any was
        clock=first.clock,
        bytes_moved=first.bytes_moved,
        flops=first.flops,
        warnings=_warnings(timings, len(samples)),
    )
    return replace(timing, side=side)


def _balance_samples(visits: Sequence[Result]) -> list[float]:
    """The samples of several visits: as many of each, so that each weighs as much."""
    each = [unpack_samples(visit.timings[0].samples) for visit in visits]
    least = min(map(len, each))
    return [sample for samples in each for sample in samples[:least]]


def _warnings(visits: Sequence[Timing], samples: int) -> tuple[str, ...]:
    """Those of all visits, each once; few samples of one may be enough of all."""
    words = dict.fromkeys(word for visit in visits for word in visit.warnings)
    return (*few(samples), *(word for word in words if not word.endswith(FEW)))
