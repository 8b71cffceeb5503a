"""Kernels whose launches are submissions of their own, timed on the NullDevice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from planted_pair import SpoiltFlight
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import packaged
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice, NullFlight, run_reference
from vkbench_worker.runtime.vulkan.queues import Place, places

CASES = ("launch_rate/u32/s65_n5", "overlap/u32/s7_n1025_r2")
COMPUTES, COPIES, DRAWS, DECODES = 2, 4, 1, 0x20


class Flying(NullDevice):
    """A device that has timelines, and may do in flight what it does not do else."""

    def __init__(self, lost: float = 0.0, spoilt: bool = False) -> None:
        super().__init__(features=("timeline",))
        self.lost, self.spoilt = lost, spoilt
        self.depths: list[int] = []

    def flight(self, parts: Any, depth: int) -> NullFlight:
        self.depths.append(depth)
        kept = list(parts)[: round(len(parts) * (1 - self.lost))]
        return SpoiltFlight(self, kept) if self.spoilt else NullFlight(self, kept)


def timed(device: NullDevice, case: str) -> Result:
    job = Job(id=1, token=1, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.02)
    return execute(device, packaged(), job)


@pytest.mark.parametrize("case", CASES)
def test_hot_is_many_in_flight_and_cold_is_one(case: str) -> None:
    device = Flying()
    result = timed(device, case)
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert [timing.metric for timing in result.timings] == ["hot", "cold"]
    assert {timing.clock for timing in result.timings} == {"host"}
    assert device.depths == [64, 1]


@pytest.mark.parametrize("case", CASES)
def test_a_flight_that_leaves_launches_out_has_no_timing(case: str) -> None:
    result = timed(Flying(lost=0.2), case)
    assert result.outcome is Outcome.WRONG
    assert "changed while it was timed" in result.reason
    assert result.timings == ()


def test_what_was_read_back_is_judged() -> None:
    result = timed(Flying(spoilt=True), CASES[1])
    assert result.outcome is Outcome.WRONG
    assert result.reason == "7 bytes that were read back are not those of the checked launch"
    assert result.timings == ()


def test_a_device_without_timelines_skips_them() -> None:
    result = timed(NullDevice(run_reference), CASES[0])
    assert result.outcome is Outcome.SKIPPED
    assert "needs timeline" in result.reason


def family(flags: int, count: int = 1, bits: int = 64) -> SimpleNamespace:
    return SimpleNamespace(queueFlags=flags, queueCount=count, timestampValidBits=bits)


@pytest.mark.parametrize(
    ("families", "wanted"),
    [
        ([family(DRAWS | COMPUTES | COPIES)], [Place(family=0)] * 3),
        (
            [family(DRAWS | COMPUTES | COPIES, 16), family(COPIES, 2)],
            [Place(family=0), Place(family=1), Place(family=1, number=1)],
        ),
        (
            [family(COMPUTES | COPIES, bits=0), family(COPIES), family(COMPUTES | COPIES)],
            [Place(family=2), Place(family=1), Place(family=1)],
        ),
        ([family(COMPUTES | COPIES), family(COPIES | DECODES)], [Place(family=0)] * 3),
    ],
)
def test_copies_have_queues_of_their_own_where_a_family_only_copies(
    families: list[SimpleNamespace], wanted: list[Place]
) -> None:
    found = places(families)
    assert [found.compute, found.upload, found.read_back] == wanted
    assert found.families == sorted({place.family for place in wanted})
    assert found.count(found.read_back.family) == found.read_back.number + 1
