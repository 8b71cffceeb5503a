"""Where the time of whole models goes: a row for each step of a model's case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vkbench.result import STEP
from vkbench_db.ask.job_story import AttemptRow, JobStory
from vkbench_tables.table import Cell, Column, Rank, ValueKind

COLUMNS = (
    Column(key="case", heading="case", lifted=True),
    Column(key="device_name", heading="device", hidden=True),
    Column(key="job", heading="job", kind=ValueKind.ID, hidden=True),
    Column(key="step", heading="step", rank=Rank.KEY),
    Column(key="launches", heading="times", kind=ValueKind.COUNT),
    Column(key="seconds", heading="in all", kind=ValueKind.SECONDS, rank=Rank.KEY),
    Column(key="share", heading="share", kind=ValueKind.PERCENT, rank=Rank.KEY),
    Column(key="change", heading="since last", kind=ValueKind.PERCENT),
    Column(key="each_seconds", heading="each", kind=ValueKind.SECONDS),
    Column(key="alone_seconds", heading="alone", kind=ValueKind.SECONDS),
    Column(key="step_case", heading="kernel's case"),
    Column(key="before_seconds", heading="before", kind=ValueKind.SECONDS, hidden=True),
)


@dataclass(frozen=True, kw_only=True)
class StepCases:
    """What the steps of one label are: their cases, and how many there are."""

    cases: Counter[str]

    @property
    def main(self) -> str:
        """The case that most of the steps have."""
        return self.cases.most_common(1)[0][0]


def steps_of(attempt: AttemptRow | None) -> dict[str, float]:
    """Seconds of each label's steps, as an attempt's telemetry tells."""
    telemetry = attempt.telemetry if attempt else {}
    return {
        name.removeprefix(STEP): float(seconds)
        for name, seconds in telemetry.items()
        if name.startswith(STEP)
    }


def rows_of(
    story: JobStory, cases: Mapping[str, StepCases], alone: Mapping[str, float]
) -> Sequence[Mapping[str, Cell]]:
    """A row for each label, the longest first; `alone` is what each case takes by itself, hot."""
    steps = steps_of(story.settling)
    before = steps_of(story.last_good.attempt) if story.last_good else {}
    whole = sum(steps.values())
    return [
        _row(story, label, seconds, whole, before.get(label), cases.get(label), alone)
        for label, seconds in sorted(steps.items(), key=lambda item: -item[1])
    ]


def _row(
    story: JobStory,
    label: str,
    seconds: float,
    whole: float,
    before: float | None,
    known: StepCases | None,
    alone: Mapping[str, float],
) -> Mapping[str, Cell]:
    launches = known.cases.total() if known else None
    return {
        "case": story.facts.case_name,
        "device_name": story.facts.device_name,
        "job": story.facts.id,
        "step": label,
        "launches": launches,
        "seconds": seconds,
        "share": seconds / whole,
        "change": seconds / before - 1 if before else None,
        "each_seconds": seconds / launches if launches else None,
        "alone_seconds": alone.get(known.main) if known else None,
        "step_case": known.main if known else None,
        "before_seconds": before,
    }
