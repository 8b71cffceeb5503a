"""What a heat map says of each kernel and format, as columns of a table."""

from __future__ import annotations

from vkbench.job import JobState
from vkbench_tables.table import Column, Rank, ValueKind

KEY = (
    Column(key="device", heading="device"),
    Column(key="kernel", heading="kernel", rank=Rank.KEY),
    Column(key="format", heading="format"),
)
FIGURES = {
    "correctness": tuple(
        Column(key=str(state), heading=str(state), kind=ValueKind.COUNT)
        for state in (JobState.PASSED, JobState.WRONG, JobState.FAILED, JobState.SKIPPED)
    ),
    "roof": (
        Column(key="cases", heading="cases", kind=ValueKind.COUNT),
        Column(key="median_roof_fraction", heading="median of roof", kind=ValueKind.PERCENT),
        Column(key="best_roof_fraction", heading="best of roof", kind=ValueKind.PERCENT),
        Column(key="least_roof_fraction", heading="least of roof", kind=ValueKind.PERCENT),
        Column(key="least_case", heading="case"),
        Column(key="cases_in_cache", heading="in the cache", kind=ValueKind.COUNT),
    ),
    "change": (
        Column(key="cases", heading="cases", kind=ValueKind.COUNT),
        Column(key="ratio", heading="ratio", kind=ValueKind.NUMBER),
        Column(key="slowest_ratio", heading="slowest", kind=ValueKind.NUMBER),
        Column(key="slowest_case", heading="case"),
    ),
    "peer": (
        Column(key="cases", heading="cases", kind=ValueKind.COUNT),
        Column(key="ratio", heading="theirs/ours", kind=ValueKind.NUMBER),
        Column(key="least_ratio", heading="least", kind=ValueKind.NUMBER),
        Column(key="least_case", heading="case"),
    ),
}
