"""Decides a suspicion by its paired timings and by the results of its series before it.

Pairs that differ speak for themselves. Values against a series do not: a pair is another protocol,
and the device has its days. So a shift stays if at least half of it is there, and it must be plain
beside what the series does by itself, whatever explains it: drivers are updated on bad days too.
One that no kernel explains has to be there in three results, as hosts are busy for a night or two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, log

from vkbench.job import ArmKind
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import Cause, Conclusion, Figures
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.levels import Before
from vkbench_detection.confirm.pairs import PairResults
from vkbench_detection.statistics.pairs import LOOKS, PairJudgement, PairVerdict, judge
from vkbench_detection.statistics.ratios import Ratio
from vkbench_detection.statistics.screen import Direction
from vkbench_detection.statistics.sizes import LATER, decide_early, is_clear, size

STAYING = 0.5  # of the suspected change
MOST_FRESH = LOOKS[-1].pairs  # values of now that are held against the series


@dataclass(frozen=True, kw_only=True)
class Remeasured:
    """What pairs say of a suspicion."""

    conclusion: Conclusion  # where `more` pairs are needed, the one to draw if there are none
    verdict: str  # stored with the confirmation
    more: int = 0  # pairs that are needed to tell
    is_new_wrong: bool = False  # whether outputs of the new bundle are wrong

    @property
    def figures(self) -> Figures:
        """Ratio, bounds and p of the pairs, if they were compared."""
        return self.conclusion.figures


@dataclass(frozen=True)
class _Case:
    """All that speaks for or against a change."""

    change: ChangePoint
    found: PairResults
    before: Before
    kind: ArmKind  # what the pairs are of
    is_same: bool  # the pairs are of one bundle
    lack: str  # why a driver before it was not timed in turns with the one after it; or ""

    @property
    def fresh(self) -> tuple[float, ...]:
        """Seconds of both arms in the order of their pairs."""
        return tuple(chain.from_iterable(zip(self.found.old, self.found.new, strict=True)))

    @property
    def direction(self) -> Direction:
        return Direction(self.change.direction)


def judge_change(
    change: ChangePoint,
    results: PairResults,
    before: Before,
    *,
    is_same: bool,
    kind: ArmKind = ArmKind.BUNDLE,
    lack: str = "",
) -> Remeasured:
    """The judgement of a change point by its pairs and the results before it.

    `lack` says why a driver before it could not be timed in turns with the one after it.
    """
    arm = ArmKind.BUILD if change.is_of_build else kind
    if results.new_wrong:
        text = f"outputs of the new {arm} are wrong: {results.new_wrong}"
        return replace(_end_change(ChangeState.DISMISSED, text, "wrong"), is_new_wrong=True)
    if results.old_wrong:
        text = f"outputs of the old {arm} are wrong: {results.old_wrong}"
        return _end_change(ChangeState.AMBIGUOUS, text, "ambiguous")
    if not results.old:
        return _end_change(
            ChangeState.AMBIGUOUS, f"no pair was measured: {results.failed}", "failed"
        )
    if is_same and pairs_decide_alone(change):
        text = f"its old {arm} is not kept"
        return _end_change(ChangeState.AMBIGUOUS, text, "ambiguous")
    case = _Case(change, results, before, arm, is_same, lack)
    return _beside_series(case) if is_same else _of_arms(case)


def pairs_decide_alone(change: ChangePoint) -> bool:
    """Whether what came before a change is too long ago, or too little, to hold values against."""
    is_new_kernel = change.before_kernel != change.after_kernel
    return change.method == Method.DECAY or (change.method == Method.KIN and is_new_kernel)


def _of_arms(case: _Case) -> Remeasured:
    old, new = case.found.old, case.found.new
    judgement, looked = decide_early(
        lambda n: judge(old[:n], new[:n], direction=case.direction), len(old)
    )
    if judgement.verdict is PairVerdict.MORE:
        return _more(judgement.next_look - judgement.pairs)
    if judgement.verdict is PairVerdict.SAME:
        if not pairs_decide_alone(case.change):
            return _beside_series(case)
        text = f"{judgement.pairs} pairs of both {case.kind}s do not differ"
        return _end_change(ChangeState.DISMISSED, text, "gone", _figures(judgement))
    if judgement.verdict is PairVerdict.AMBIGUOUS:
        text = f"{judgement.pairs} pairs are not certain"
        return _end_change(ChangeState.AMBIGUOUS, text, judgement.verdict, _figures(judgement))
    text = f"{judgement.pairs} pairs of both {case.kind}s differ"
    confirmed = _confirm_change(text, judgement.verdict, _figures(judgement), _CAUSES[case.kind])
    if is_clear(judgement):
        return confirmed
    later = size(old[looked:], new[looked:])
    return _size_change(case, confirmed, later, looked + LATER - len(old))


def _size_change(
    case: _Case, confirmed: Remeasured, later: Ratio | None, missing: int
) -> Remeasured:
    """A small confirmed change with the size that later pairs tell, or how many more these need.

    Those that go the other way are not certain of any change.
    """
    if later is None:
        return replace(confirmed, more=missing)
    figures = {"ratio": later.ratio, "low": later.low, "high": later.high}
    known = {**confirmed.figures, **figures}
    if (later.ratio > 1) != (case.direction is Direction.SLOWER):
        text = f"{confirmed.conclusion.note}, and those after them do not"
        return _end_change(ChangeState.AMBIGUOUS, text, "ambiguous", known)
    return replace(confirmed, conclusion=replace(confirmed.conclusion, figures=known))


def _beside_series(case: _Case) -> Remeasured:
    """Both arms are the same: what they have in common against what the series was."""
    fresh, before = case.fresh, case.before
    if not before.are_enough:
        text = "too few results before it to hold new ones against"
        return _end_change(ChangeState.AMBIGUOUS, text, "ambiguous")
    judgement, looked = decide_early(
        lambda n: judge(before.seconds, fresh[:n], direction=case.direction),
        min(len(fresh), MOST_FRESH),
    )
    is_plain = before.is_plain(fresh)  # if it is not, more values of this night do not help
    if judgement.verdict is PairVerdict.MORE and is_plain and len(fresh) < MOST_FRESH:
        return _more(max(1, ceil((judgement.next_look - len(fresh)) / 2)))
    figures = _figures(judgement)
    is_there = judgement.verdict in (PairVerdict.REGRESSED, PairVerdict.IMPROVED)
    if judgement.verdict is PairVerdict.SAME or not _stays(case.change, judgement):
        text = f"measured again {len(fresh)} times, the change is gone"
        return _end_change(ChangeState.DISMISSED, text, "gone", figures)
    cause = _cause(case)
    if not is_there or not is_plain:
        text = "there is a shift, within what the series scatters by from day to day"
        return _end_change(ChangeState.AMBIGUOUS, text, "ambiguous", figures)
    if cause in (Cause.HOST, Cause.ENVIRONMENT) and not before.has_lasted:
        text = (
            f"measured again {len(fresh)} times, the change stays; the next results have to show it"
        )
        return _end_change(ChangeState.AMBIGUOUS, text, "ambiguous", figures)
    text = f"measured again {looked} times, the change stays; {_explain(case, cause)}"
    confirmed = _confirm_change(text, "stays", figures, cause)
    if is_clear(judgement):
        return confirmed
    later = fresh[looked:]
    return _size_change(
        case, confirmed, size(before.seconds, later), ceil((LATER - len(later)) / 2)
    )


def concluded_beside_series(change: ChangePoint, before: Before) -> Conclusion | None:
    """What is concluded without pairs of one bundle, if no values of now could be plain.

    A result or two are nothing then; a shift that lasts is one that people may look at.
    """
    if not before.are_enough or before.can_be_plain(Direction(change.direction)):
        return None
    if before.has_lasted:
        text = "there is a shift, within what the series scatters by: not measured again"
        return Conclusion(state=ChangeState.AMBIGUOUS, note=text)
    text = "within what the series scatters by: not measured again, unless it lasts"
    return Conclusion(state=ChangeState.DISMISSED, note=text)


_WHY = {
    Cause.ENVIRONMENT: "the kernels are the same or equally fast, and the environment is another",
    Cause.HOST: "neither kernels nor environment explain it",
    Cause.KERNEL: "the kernel is another, and the old one is not kept",
    Cause.BUILD: "the build is another, and the old one is not kept",
    Cause.UNKNOWN: "kernel and environment changed, and the old kernel is not kept",
}


_CAUSES = {
    ArmKind.BUNDLE: Cause.KERNEL,
    ArmKind.BUILD: Cause.BUILD,
    ArmKind.DRIVER: Cause.DRIVER,
}


def _explain(case: _Case, cause: Cause) -> str:
    if cause is Cause.ENVIRONMENT and case.kind is ArmKind.DRIVER:
        return "both drivers are equally fast, and other software is another"
    lack = f"; both drivers were not timed in turns: {case.lack}" if case.lack else ""
    return f"{_WHY[cause]}{lack}"


def _cause(case: _Case) -> Cause:
    change = case.change
    kernel = case.is_same and change.before_kernel != change.after_kernel
    if change.before_environment != change.after_environment:
        return Cause.UNKNOWN if kernel else Cause.ENVIRONMENT
    return _CAUSES[case.kind] if kernel else Cause.HOST


def _stays(change: ChangePoint, judgement: PairJudgement) -> bool:
    suspected = log(change.ratio) if change.ratio else 0.0
    return abs(log(judgement.ratio)) >= STAYING * abs(suspected)


def _more(pairs: int) -> Remeasured:
    failed = Conclusion(state=ChangeState.AMBIGUOUS, note="pairs that were asked for failed")
    return Remeasured(conclusion=failed, verdict="ambiguous", more=pairs)


def _confirm_change(text: str, verdict: str, figures: Figures, cause: Cause) -> Remeasured:
    return _end_change(ChangeState.CONFIRMED, text, verdict, figures, cause)


def _end_change(
    state: ChangeState,
    text: str,
    verdict: str,
    figures: Figures | None = None,
    cause: Cause | None = None,
) -> Remeasured:
    conclusion = Conclusion(state=state, note=text, cause=cause, figures=figures or {})
    return Remeasured(conclusion=conclusion, verdict=verdict)


def _figures(judgement: PairJudgement) -> Figures:
    return {
        "ratio": judgement.ratio,
        "low": judgement.low,
        "high": judgement.high,
        "p": judgement.p,
    }
