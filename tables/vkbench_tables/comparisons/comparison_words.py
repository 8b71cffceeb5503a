"""A comparison in sentences: what was compared, what changed, and on which devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkbench.job import JobState
from vkbench.words.units import counted

if TYPE_CHECKING:
    from vkbench_detection.compare.compared import Comparison, Place
    from vkbench_detection.compare.drift import Drift
    from vkbench_detection.compare.references import Reference
    from vkbench_detection.statistics.ratios import Mean

# vkbench_detection.compare.compared.Word: what was compared, and what says nothing
COUNTED = ("slower", "faster", "~")

UNCOUNTED = {
    "flagged": "flagged and not counted",
    "too noisy": "too noisy",
    "too few": "of too few samples",
}

_NEARER = "above 1 the new side is nearer"

_MOST_NAMED = 3  # devices of a side in the summary


def summary(found: Comparison) -> str:
    """One line: what was compared, what changed, and the mean of all."""
    words = [f"{sides(found)}: {counted(len(found.pairs), 'timing')} in common"]
    if found.pairs:
        words[0] += f" ({counted_words(found)})"
    if found.mean:
        words.append(f"geometric mean of new/old {_mean(found.mean)}")
    if found.changes:
        words.append(_verdict_words(found))
    return ", ".join(words) + alone(found)


def counted_words(found: Comparison) -> str:
    """How many timings are slower, faster, the same, and how many say nothing."""
    said = [f"{found.words[word]} {word}" for word in COUNTED]
    said += [
        f"{count} {words}" for word, words in UNCOUNTED.items() if (count := found.words[word])
    ]
    return ", ".join(said)


def sides(found: Comparison) -> str:
    """What is compared, and on which devices where these differ."""
    if not found.is_across:
        return f"{found.old.name} → {found.new.name}"
    return (
        f"{_side_words(found.old, found.old_places)} → {_side_words(found.new, found.new_places)}"
    )


def _side_words(reference: Reference, places: Sequence[Place]) -> str:
    named = [f"{place.name} ({place.key}, host {place.host})" for place in places[:_MOST_NAMED]]
    more = len(places) - len(named)
    devices = " and ".join([*named, *([f"{more} more"] if more else [])])
    return devices if reference.is_device else f"{reference.name} on {devices}"


def _verdict_words(found: Comparison) -> str:
    wrong, right = verdict_counts(found)
    others, verdicts = _other_ends(found), counted(len(found.changes), "verdict")
    if found.is_across:
        verb = "differs" if len(found.changes) == 1 else "differ"
        return f"{verdicts} {verb} (on the new side alone {wrong} wrong, {right} passed{others})"
    return f"{verdicts} changed ({wrong} wrong, {right} fixed{others})"


def _other_ends(found: Comparison) -> str:
    """Verdicts that are neither wrong nor right now; mostly there are none."""
    ends = ends_of(found)
    counted_ends = ((ends[end], end) for end in (JobState.FAILED, JobState.SKIPPED))
    return "".join(f", {count} {end}" for count, end in counted_ends if count)


def device_lines(found: Comparison) -> list[str]:
    """What each device changed by, and all of them, where there are more; shares of their roofs."""
    lines = [f"  {name} ({key}): {_mean(mean)}" for (key, name), mean in found.device_means.items()]
    if found.fleet_mean:
        lines.append(f"  all devices alike: {_mean(found.fleet_mean)}")
    if share := found.share_mean:
        mean = f"geometric mean of new/old {_mean(share)}"
        lines.append(f"  shares of the devices' roofs, {share.count} in common: {mean}; {_NEARER}")
    return lines


def drift_lines(drifts: Sequence[Drift]) -> list[str]:
    """What each device's canary says: what it changed by, no kernel did."""
    return [
        f"  canary of {each.name} ({each.device}): {each.ratio:.4f} of what it was"
        for each in drifts
    ]


def alone(found: Comparison) -> str:
    """What only one side has."""
    if not (found.only_old or found.only_new):
        return ""
    old = counted(found.only_old, "case")
    said = f" ({old} only in the old one, {found.only_new} only in the new one)"
    if not found.otherwise:
        return said
    verb = "is" if found.otherwise == 1 else "are"
    same = f"{found.otherwise} of them {verb} the same, asked for by another --variant"
    return f"{said}; {same}"


def timing_counts(found: Comparison) -> tuple[int, int]:
    """Slower and faster ones."""
    slower, faster, _ = (sum(pair.word == word for pair in found.pairs) for word in COUNTED)
    return slower, faster


def verdict_counts(found: Comparison) -> tuple[int, int]:
    """What became wrong, and what is right now."""
    ends = ends_of(found)
    return ends[JobState.WRONG], ends[JobState.PASSED]


def ends_of(found: Comparison) -> Counter[JobState]:
    """How many of the changed verdicts are which one now."""
    return Counter(change.new for change in found.changes)


def _mean(mean: Mean) -> str:
    if mean.low is None or mean.high is None:
        return f"{mean.value:.4f} ({mean.why})" if mean.why else f"{mean.value:.4f}"
    return f"{mean.value:.4f} ({mean.low:.4f} to {mean.high:.4f})"
