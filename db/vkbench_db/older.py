"""What older versions stored and sent: runs without a kind, and timings whose metric is a side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from vkbench.job import PEERS, Mode
from vkbench.result import HOT, Side, Timing
from vkbench.run import Purpose, RunKind, kind_of_suite

TRIAL_PRIORITY = 1_000_000
# What is kept about runs, by the keys of the tags that older versions kept it in.
_ABOUT: Mapping[RunKind, Mapping[str, str]] = {
    RunKind.WORK: {"schedule": "schedule", "slot": "slot"},
    RunKind.SWEEP: {"tune": "sweep", "unkept": "unkept"},
    RunKind.CONFIRMATION: {"change_point": "change"},
    RunKind.BISECTION: {"bisection": "bisection", "position": "position"},
    RunKind.SECOND_CHECK: {"suspect": "job", "told": "told_at"},
    RunKind.IMPORT: {"peer": "peer"},
}


class OldRun(Protocol):
    """A run that does not say what it is for."""

    @property
    def mode(self) -> str: ...
    @property
    def track(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def tags(self) -> Mapping[str, Any]: ...
    @property
    def selection(self) -> Mapping[str, Any]: ...


def purpose_of(run: OldRun) -> Purpose:
    """What a run of an older version is for."""
    kind = _kind_of(run)
    keys = _ABOUT.get(kind, {})
    if kind is RunKind.WORK and not keys.keys() <= run.tags.keys():
        keys = {}
    return Purpose(
        kind=kind, about={new: run.tags[old] for old, new in keys.items() if old in run.tags}
    )


def tags_of(run: OldRun) -> dict[str, Any]:
    """The tags that its user gave it."""
    purpose = purpose_of(run)
    keys = _ABOUT[purpose.kind] if purpose.about else {}
    return {key: value for key, value in run.tags.items() if key not in keys}


def _kind_of(run: OldRun) -> RunKind:
    match run.mode:
        case Mode.PAIRED:
            is_bisection = "bisection" in run.tags
            return RunKind.BISECTION if is_bisection else RunKind.CONFIRMATION
        case Mode.SHARDED:
            return RunKind.SHARD
        case Mode.ACCURACY:
            return RunKind.ACCURACY
    if run.track == "":
        # a user's tag is a text
        if isinstance(run.tags.get("tune"), Mapping):
            return RunKind.SWEEP
        if run.label == "second check" and isinstance(run.tags.get("suspect"), int):
            return RunKind.SECOND_CHECK
        if run.priority == TRIAL_PRIORITY:
            return RunKind.TRIAL
    if run.track == PEERS:
        return RunKind.IMPORT
    return kind_of_suite(str(run.selection.get("suite", "")))


_BESIDE_OURS: Final = "ours"  # metric of our kernel in turns with a peer, whose own was hot


def timings_of(timings: Sequence[Timing], pair_metric: str) -> tuple[Timing, ...]:
    """The timings of a job; where metrics are sides, as metrics and sides.

    `pair_metric` is what a paired job timed.
    """
    metrics = {timing.metric for timing in timings}
    if metrics & {Side.OLD, Side.NEW}:
        return tuple(
            replace(timing, metric=pair_metric or HOT, side=Side(timing.metric))
            for timing in timings
        )
    if _BESIDE_OURS in metrics:
        return tuple(
            replace(timing, metric=HOT, side=Side.OURS if timing.metric != HOT else Side.THEIRS)
            for timing in timings
        )
    return tuple(timings)
