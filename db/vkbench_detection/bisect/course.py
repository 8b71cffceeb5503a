"""What a bisection does next: the bundles of its next round, or its end.

The last bundle says what is looked for: one that is slower, or wrong, or fails. Bundles that cannot
be judged (they do not compile, fail though the last one does not, or stay ambiguous after all
pairs) are passed over, as git does. Nothing here writes or measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from vkbench_db.upkeep.bisections import FAILED, FOUND, Bisection, BisectionStep
from vkbench_detection.bisect.search import Word, next_places, span, suspects
from vkbench_detection.bisect.verdicts import StepVerdict
from vkbench_detection.confirm.pairs import PairResults

# Of the whole change, in logarithms: a bundle that brought less is not the one that is looked for.
SHARE = 0.5
FAULTS = (StepVerdict.BAD, StepVerdict.WRONG, StepVerdict.FAILED)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a bisection ends."""

    state: str  # found | failed
    note: str


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is known now, and the bundles to hold against the good one next."""

    low: int  # position of the last good one
    high: int  # position of the first bad one
    places: tuple[int, ...]  # at most one a device; none: the search is over


def open_steps(bisection: Bisection) -> list[BisectionStep]:
    """The steps whose pairs are under way."""
    return [step for step in bisection.steps if not step.verdict]


def fault(results: PairResults) -> Ending | None:
    """The end of a bisection whose good bundle turns out to be wrong."""
    if not results.old_wrong:
        return None
    return Ending(state=FAILED, note=f"the good one is wrong itself: {results.old_wrong}")


def trouble(bisection: Bisection) -> Ending | None:
    """The end of a bisection in which there is nothing to search for."""
    whole = _find_whole_step(bisection)
    if whole is None or whole.verdict in FAULTS:
        return None
    last = bisection.candidates[-1].label
    if whole.verdict == StepVerdict.GOOD:
        note = f"{last} is no slower than the good one{_evidence(whole)}"
    else:
        note = f"it is unclear whether {last} is worse than the good one: {whole.note}"
    return Ending(state=FAILED, note=note)


def least_ratio(bisection: Bisection) -> float:
    """How slow the bundle that is looked for is at least; 0 while that is not known."""
    whole = _find_whole_step(bisection)
    if not (whole and whole.verdict == StepVerdict.BAD and whole.ratio):
        return 0.0
    return exp(SHARE * log(whole.ratio))


def seeks_wrong(bisection: Bisection) -> bool:
    """Whether the last one is wrong, so that how fast one is does not matter."""
    whole = _find_whole_step(bisection)
    return whole is not None and whole.verdict == StepVerdict.WRONG


def next_round(bisection: Bisection) -> Round:
    """The next round of a bisection without open steps."""
    count, words = len(bisection.candidates), words_of(bisection)
    known = span(count, words)
    places = next_places(count, words, len(bisection.devices))
    return Round(low=known.low, high=known.high, places=tuple(places))


def places_to_make(bisection: Bisection) -> list[int]:
    """The candidates of the next round that are not made yet; none while steps are under way."""
    if open_steps(bisection):
        return []
    places = next_round(bisection).places
    return [place for place in places if not bisection.candidates[place].is_made]


def end_with_culprit(bisection: Bisection) -> Ending:
    """The end of a search that is over: the first bad bundle, with its evidence.

    Where the good one is the newest, it is the one before the bad one: the first good one.
    """
    *unjudged, first = suspects(len(bisection.candidates), words_of(bisection))
    judged = bisection.step_of(first)
    assert judged
    label = bisection.candidates[first].label
    is_timed = judged.verdict not in (StepVerdict.WRONG, StepVerdict.FAILED)
    how = _evidence(judged) if is_timed else f": {judged.verdict}: {judged.note}"
    if judged.verdict == StepVerdict.FAILED and not any(map(_has_run, bisection.steps)):
        how += f"; no pair ran, so that {bisection.candidates[0].label} may fail too"
    if bisection.newest_first:
        return _end_with_mender(bisection, unjudged, f"{label} is bad{how}")
    if not unjudged:
        return Ending(state=FOUND, note=f"{label} is the first bad one{how}")
    others = ", ".join(bisection.candidates[place].label for place in unjudged)
    note = f"{label} is bad{how}; the first bad one may also be {others}, which cannot be judged"
    return Ending(state=FOUND, note=note)


def _end_with_mender(bisection: Bisection, unjudged: Sequence[int], evidence: str) -> Ending:
    """The end of a search from new to old: the first good one, and what is known of the last bad.

    Any of those that cannot be judged may be the first good one instead.
    """
    low = span(len(bisection.candidates), words_of(bisection)).low
    mender, *others = [bisection.candidates[place].label for place in (low, *unjudged)]
    if not others:
        return Ending(state=FOUND, note=f"{mender} is the first good one: {evidence}")
    note = f"{mender} is good; the first good one may also be {', '.join(others)}, "
    return Ending(state=FOUND, note=f"{note}which cannot be judged: {evidence}")


def words_of(bisection: Bisection) -> dict[int, Word]:
    """What is known of each bundle, for the search; the same files are as good or as bad."""
    candidates, whole = bisection.candidates, _find_whole_step(bisection)
    words = {step.position: _word(step, whole) for step in bisection.steps if step.verdict}
    by_sha = {candidates[place].sha: word for place, word in words.items()}
    by_sha[candidates[0].sha] = Word.GOOD
    for place, candidate in enumerate(candidates[1:], 1):
        if candidate.sha in by_sha:
            words.setdefault(place, by_sha[candidate.sha])
        elif candidate.is_made and not candidate.sha:
            words[place] = Word.SKIPPED
    return words


def note_of(bisection: Bisection, judged: BisectionStep) -> str:
    """What is said of a step: that of its pairs, or why the search goes on behind a slower one."""
    word = words_of(bisection).get(judged.position)
    if judged.verdict == StepVerdict.BAD and word is Word.GOOD:
        return "it brought less than half of the whole change, so the search went on behind it"
    return judged.note


def _word(judged: BisectionStep, whole: BisectionStep | None) -> Word:
    if whole and whole.verdict == StepVerdict.FAILED:  # one that fails is looked for
        if judged.verdict == StepVerdict.FAILED:
            return Word.BAD
        return Word.GOOD if _has_run(judged) else Word.SKIPPED
    match StepVerdict(judged.verdict):
        case StepVerdict.GOOD:
            return Word.GOOD
        case StepVerdict.AMBIGUOUS | StepVerdict.FAILED:
            return Word.SKIPPED
        case StepVerdict.WRONG:
            return Word.BAD
    if whole and whole.verdict == StepVerdict.WRONG:  # a wrong one is looked for, not a slow one
        return Word.GOOD
    if whole and whole.ratio and judged.ratio:
        return Word.BAD if log(judged.ratio) >= SHARE * log(whole.ratio) else Word.GOOD
    return Word.BAD


def _has_run(judged: BisectionStep) -> bool:
    """Whether a pair of a step ran to its end."""
    return judged.ratio is not None or judged.verdict == StepVerdict.WRONG


def _find_whole_step(bisection: Bisection) -> BisectionStep | None:
    """The judged step that holds the last bundle against the first one."""
    last = len(bisection.candidates) - 1
    return next((step for step in bisection.steps if step.position == last), None)


def _evidence(judged: BisectionStep) -> str:
    if judged.ratio is None or judged.p is None:
        return ""
    bounds = f" ({judged.low:.4f} to {judged.high:.4f})" if judged.low and judged.high else ""
    return f": ratio {judged.ratio:.4f}{bounds}, p {judged.p:.2g}, {judged.pairs} pairs"
