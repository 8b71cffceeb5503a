"""What pairs say of a suspicion, beside the results that its series had before it.

Pairs that differ speak for themselves. Values against a series do not: a pair is another protocol,
and the device has its days. So a shift stays if at least half of it is there, and unless another
environment explains it, it must be plain beside what the series scatters by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

from sqlalchemy import Row

from vkbench_db.change_points import Cause, Finding, Standing
from vkbench_db.pairs import PairResults
from vkbench_db.statistics.pairs import LOOKS, Decision, Verdict, decide
from vkbench_db.statistics.screen import JUMP_SIGMAS, Direction, reference

STAYING = 0.5  # of the suspected change
MOST_FRESH = LOOKS[-1].pairs  # values of now that are held against the series
LEAST_BEFORE = 8  # results of the series, which a few values of now can be held against

Figures = dict[str, float | None]
AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Remeasured:
    """What came of pairs."""

    finding: Finding
    verdict: str  # of the confirmation
    figures: Figures = field(default_factory=dict)  # its ratio, low, high, p
    more: int = 0  # pairs that are needed to tell


@dataclass(frozen=True)
class _Case:
    """All that speaks for or against a change."""

    change: AnyRow  # the change point
    found: PairResults
    before: Sequence[float]  # seconds of the series
    is_same: bool  # the pairs are of one bundle

    @property
    def fresh(self) -> tuple[float, ...]:
        return (*self.found.old, *self.found.new)

    @property
    def direction(self) -> Direction:
        return Direction(self.change.direction)


def judged(
    change: AnyRow, found: PairResults, before: Sequence[float], *, is_same: bool
) -> Remeasured:
    """The judgement of a change point by its pairs and the results before it."""
    if found.new_wrong:
        text = f"outputs of the new bundle are wrong: {found.new_wrong}"
        return _ended(Standing.DISMISSED, text, "wrong")
    if found.old_wrong:
        text = f"outputs of the old bundle are wrong: {found.old_wrong}"
        return _ended(Standing.AMBIGUOUS, text, "ambiguous")
    if not found.old:
        return _ended(Standing.AMBIGUOUS, f"no pair was measured: {found.failed}", "failed")
    case = _Case(change, found, before, is_same)
    return _beside_series(case) if is_same else _of_arms(case)


def _of_arms(case: _Case) -> Remeasured:
    decision = decide(case.found.old, case.found.new, direction=case.direction)
    if decision.verdict is Verdict.MORE:
        return _more(decision.next_look - decision.pairs)
    if decision.verdict is Verdict.SAME:
        return _beside_series(case)
    figures = _figures(decision)
    if decision.verdict is Verdict.AMBIGUOUS:
        text = f"{decision.pairs} pairs are not certain"
        return _ended(Standing.AMBIGUOUS, text, decision.verdict, figures)
    text = f"{decision.pairs} pairs of both bundles differ"
    return _ended(Standing.CONFIRMED, text, decision.verdict, figures, Cause.KERNEL)


def _beside_series(case: _Case) -> Remeasured:
    """Both arms are the same: what they have in common against what the series was."""
    fresh, before = case.fresh, case.before
    if len(before) < LEAST_BEFORE:
        text = "too few results before it to hold new ones against"
        return _ended(Standing.AMBIGUOUS, text, "ambiguous")
    decision = decide(before, fresh, direction=case.direction)
    if decision.verdict is Verdict.MORE and len(fresh) < MOST_FRESH:
        return _more(max(1, ceil((decision.next_look - len(fresh)) / 2)))
    figures = _figures(decision)
    is_there = decision.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    if decision.verdict is Verdict.SAME or not _stays(case.change, decision):
        text = f"measured again {len(fresh)} times, the change is gone"
        return _ended(Standing.DISMISSED, text, "gone", figures)
    cause = _cause(case)
    if not is_there or (cause is not Cause.ENVIRONMENT and not _is_plain(decision, before)):
        text = "there is a shift, within what the series scatters by from day to day"
        return _ended(Standing.AMBIGUOUS, text, "ambiguous", figures)
    text = f"measured again {len(fresh)} times, the change stays; {_WHY[cause]}"
    return _ended(Standing.CONFIRMED, text, "stays", figures, cause)


_WHY = {
    Cause.ENVIRONMENT: "the kernels are the same or equally fast, and the environment is another",
    Cause.HOST: "neither kernels nor environment explain it",
    Cause.KERNEL: "the kernel is another, and the old one is not kept",
    Cause.UNKNOWN: "kernel and environment changed, and the old kernel is not kept",
}


def _cause(case: _Case) -> Cause:
    change = case.change
    kernel = case.is_same and change.before_kernel != change.after_kernel
    if change.before_environment != change.after_environment:
        return Cause.UNKNOWN if kernel else Cause.ENVIRONMENT
    return Cause.KERNEL if kernel else Cause.HOST


def _stays(change: AnyRow, decision: Decision) -> bool:
    suspected = log(change.ratio) if change.ratio else 0.0
    return abs(log(decision.ratio)) >= STAYING * abs(suspected)


def _is_plain(decision: Decision, before: Sequence[float]) -> bool:
    _, sigma = reference(tuple(map(log, before)))
    return abs(log(decision.ratio)) >= JUMP_SIGMAS * sigma


def _more(pairs: int) -> Remeasured:
    finding = Finding(state=Standing.AMBIGUOUS, note="pairs that were asked for failed")
    return Remeasured(finding=finding, verdict="ambiguous", more=pairs)


def _ended(
    state: Standing,
    text: str,
    verdict: str,
    figures: Figures | None = None,
    cause: Cause | None = None,
) -> Remeasured:
    figures = figures or {}
    finding = Finding(state=state, note=text, cause=cause or "", figures=figures)
    return Remeasured(finding=finding, verdict=verdict, figures=figures)


def _figures(decision: Decision) -> Figures:
    return {
        "ratio": decision.ratio,
        "low": decision.low,
        "high": decision.high,
        "p": decision.p,
    }
