"""Times by the host's clock, as those of other programs are, differ more between processes."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from databases import Lab, one_engine
from vkbench_detection.compare.comparison import compare
from vkbench_detection.compare.references import find

pytestmark = one_engine
# suite ggml by one build of ggml-vulkan, twice on an H200: 102 cases, of which 11 seemed to change
TWICE = Path(__file__).parents[1] / "planted" / "recorded" / "one_build_twice.csv"


def changed_cases(lab: Lab, clock: str, factor: float = 1.0) -> list[str]:
    """The cases that `compare` calls changed, with the second run's times taken by a factor."""
    rows = {row["case"]: row for row in csv.DictReader(TWICE.read_text().splitlines())}
    device = lab.add_device("NVIDIA H200", kind="discrete")
    runs = []
    for name, slower in (("one", 1.0), ("two", factor)):
        runs.append(lab.submit(device, list(rows)))
        while jobs := lab.pick(device):
            for job in jobs:
                seconds, low, high = (
                    slower * float(rows[job.case][f"{name}_{bound}"]) * 1e-6
                    for bound in ("us", "low", "high")
                )
                answer = lab.answer(job, seconds=seconds)
                timings = tuple(
                    replace(timing, low=low, high=high, clock=clock, count=30)
                    for timing in answer.timings
                    if timing.metric == "hot"
                )
                lab.record(replace(answer, timings=timings))
    with lab.database.reading() as tx:
        found = compare(tx, *(find(tx, str(run)) for run in runs))
    assert len(found.pairs) == len(rows)
    return [pair.work.case_name for pair in found.pairs if pair.is_slower or pair.is_faster]


def test_one_build_twice_is_no_change(lab: Lab) -> None:
    assert not changed_cases(lab, "host")


def test_the_same_times_by_the_devices_clock_are_changes(lab: Lab) -> None:
    assert len(changed_cases(lab, "gpu")) >= 10


@pytest.mark.parametrize("factor", [1.1])
def test_a_slower_build_is_seen_where_launches_take_long(lab: Lab, factor: float) -> None:
    slower = changed_cases(lab, "host", factor)
    assert len(slower) > 50
    assert "mul_mat/q4_K/m4096_n512_k14336" in slower
