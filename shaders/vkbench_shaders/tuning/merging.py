"""Merges a tuning table that was sent in into the one that the tree has for its class."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vkbench_shaders.tuning.rates import Rates
from vkbench_shaders.tuning.tables import Table


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A table with what was sent in, and what that changed."""

    table: Table
    new: tuple[str, ...]  # cases that it did not have
    changed: tuple[str, ...]  # those that take another configuration now


def merge_tables(own: Table, sent: Table) -> Merged:
    """The tree's table of a class with the cases, rates and peaks of one that was sent in.

    Other cases stay as they were, and so do the tree's thresholds. What was sent counts, as it was
    measured by the kernels that the tree has now; of the rates, those that a calibration measures.
    """
    before = {entry.case: entry for entry in own.tuned}
    added = {entry.case: entry for entry in sent.tuned}
    both = before | added
    measured = dict.fromkeys((*own.sources, *sent.sources))
    table = replace(
        own,
        sources=tuple(sorted(measured, key=lambda each: (each.device, each.measured_at))),
        tuned=tuple(both[case] for case in sorted(both)),
        rates=_merge_rates(own.rates, sent.rates),
        peaks=sent.peaks or own.peaks,
    )
    return Merged(
        table=table,
        new=tuple(sorted(added.keys() - before)),
        changed=tuple(
            case
            for case in sorted(added.keys() & before)
            if added[case].configuration != before[case].configuration
        ),
    )


def _merge_rates(own: Rates | None, sent: Rates | None) -> Rates | None:
    """The rates that were sent, with the tree's own of what no calibration measures."""
    if own is None or sent is None:
        return sent or own
    return replace(sent, step_seconds=own.step_seconds, workgroup_seconds=own.workgroup_seconds)
