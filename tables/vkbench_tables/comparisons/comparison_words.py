"""A comparison in sentences: what was compared, what changed, and on which devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkbench.job import JobState
from vkbench.words.units import count_of

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


def summary(comparison: Comparison) -> str:
    """One line: what was compared, what changed, and the mean of all."""
    words = [f"{sides(comparison)}: {count_of(len(comparison.pairs), 'timing')} in common"]
    if comparison.pairs:
        words[0] += f" ({counted_words(comparison)})"
    if comparison.mean:
        words.append(f"geometric mean of new/old {_mean(comparison.mean)}")
    if comparison.changes:
        words.append(_verdict_words(comparison))
    return ", ".join(words) + one_sided_cases(comparison)


def counted_words(comparison: Comparison) -> str:
    """How many timings are slower, faster, the same, and how many say nothing."""
    parts = [f"{comparison.words[word]} {word}" for word in COUNTED]
    parts += [
        f"{count} {words}" for word, words in UNCOUNTED.items() if (count := comparison.words[word])
    ]
    return ", ".join(parts)


def sides(comparison: Comparison) -> str:
    """What is compared, and on which devices where these differ."""
    if not comparison.is_across:
        return f"{comparison.old.name} → {comparison.new.name}"
    old = _side_words(comparison.old, comparison.old_places)
    new = _side_words(comparison.new, comparison.new_places)
    return f"{old} → {new}"


def _side_words(reference: Reference, places: Sequence[Place]) -> str:
    named = [f"{place.name} ({place.key}, host {place.host})" for place in places[:_MOST_NAMED]]
    more = len(places) - len(named)
    devices = " and ".join([*named, *([f"{more} more"] if more else [])])
    return devices if reference.is_device else f"{reference.name} on {devices}"


def _verdict_words(comparison: Comparison) -> str:
    wrong, right = verdict_counts(comparison)
    others, verdicts = _other_ends(comparison), count_of(len(comparison.changes), "verdict")
    if comparison.is_across:
        verb = "differs" if len(comparison.changes) == 1 else "differ"
        return f"{verdicts} {verb} (on the new side alone {wrong} wrong, {right} passed{others})"
    return f"{verdicts} changed ({wrong} wrong, {right} fixed{others})"


def _other_ends(comparison: Comparison) -> str:
    """Verdicts that are neither wrong nor right now; mostly there are none."""
    ends = ends_of(comparison)
    counted_ends = ((ends[end], end) for end in (JobState.FAILED, JobState.SKIPPED))
    return "".join(f", {count} {end}" for count, end in counted_ends if count)


def device_lines(comparison: Comparison) -> list[str]:
    """Lines of each device's mean, of all devices alike, and of shares of their roofs."""
    lines = [
        f"  {name} ({key}): {_mean(mean)}" for (key, name), mean in comparison.device_means.items()
    ]
    if comparison.fleet_mean:
        lines.append(f"  all devices alike: {_mean(comparison.fleet_mean)}")
    if share := comparison.share_mean:
        mean = f"geometric mean of new/old {_mean(share)}"
        lines.append(f"  shares of the devices' roofs, {share.count} in common: {mean}; {_NEARER}")
    return lines


def drift_lines(drifts: Sequence[Drift]) -> list[str]:
    """Lines of what each device's canary changed by, which no kernel did."""
    return [
        f"  canary of {drift.name} ({drift.device}): {drift.ratio:.4f} of what it was"
        for drift in drifts
    ]


def one_sided_cases(comparison: Comparison) -> str:
    """A clause that counts the cases of only one side."""
    if not (comparison.only_old or comparison.only_new):
        return ""
    old = count_of(comparison.only_old, "case")
    counts = f" ({old} only in the old one, {comparison.only_new} only in the new one)"
    if not comparison.otherwise:
        return counts
    verb = "is" if comparison.otherwise == 1 else "are"
    same = f"{comparison.otherwise} of them {verb} the same, asked for by another --variant"
    return f"{counts}; {same}"


def timing_counts(comparison: Comparison) -> tuple[int, int]:
    """How many timings are slower, and how many faster."""
    return comparison.words["slower"], comparison.words["faster"]


def verdict_counts(comparison: Comparison) -> tuple[int, int]:
    """How many verdicts became wrong, and how many are right now."""
    ends = ends_of(comparison)
    return ends[JobState.WRONG], ends[JobState.PASSED]


def ends_of(comparison: Comparison) -> Counter[JobState]:
    """The changed verdicts counted by what they are now."""
    return Counter(change.new for change in comparison.changes)


def _mean(mean: Mean) -> str:
    if mean.low is None or mean.high is None:
        return f"{mean.value:.4f} ({mean.why})" if mean.why else f"{mean.value:.4f}"
    return f"{mean.value:.4f} ({mean.low:.4f} to {mean.high:.4f})"
