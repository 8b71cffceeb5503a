"""Wrong kernels, built from an edited shader tree and run by a real driver, are caught."""

from __future__ import annotations

import pytest

from planted_add import planted_add
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

MILLION = "add/f32/b1_c1_h1000_w1000"
SMALL = "add/f32/b1_c1_h17_w129"

# What is done to four sums before they are stored, `first` being the first one's place.
WRONG = {
    "unwritten": "if (first == 500000) sum.z = asfloat(wide_y[first / 4].z);",
    "past_the_end": "if (first == 0) y[1000000 + 5] = 1;",
    "large_only": "if (first >= 4000) sum *= 1.01;",
    "not_a_number": "if (first == 12) sum.x = asfloat(0x7f800001);",
    "imprecise": "sum *= 1.001;",
    "unrepeatable": "if (wide_y[first / 4].x == 0x7FC07FC0) sum.x *= 1.0000002;",
}


@pytest.fixture
def planted(request: pytest.FixtureRequest) -> Bundle:
    return planted_add(WRONG[request.param])


def run(device: VulkanDevice, bundle: Bundle, case: str, mode: Mode = Mode.CORRECTNESS) -> Result:
    job = Job(id=1, token=1, case=case, mode=mode, measure_seconds=0.05)
    return execute(device, bundle, job)


@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        ("unwritten", "1 of 1000000 elements of y were never written"),
        (
            "past_the_end",
            "8 guard bytes of y were overwritten, the first 20 bytes behind it",
        ),  # 4 in each run
        ("not_a_number", "1 elements of y are NaN or Inf"),
        ("imprecise", "elements of y are not exactly the reference"),
        ("unrepeatable", "elements of y differ between two runs"),
    ],
    indirect=["planted"],
)
def test_a_wrong_kernel_is_wrong(lavapipe: VulkanDevice, planted: Bundle, reason: str) -> None:
    for mode in (Mode.CORRECTNESS, Mode.PERFORMANCE):
        result = run(lavapipe, planted, MILLION, mode)
        assert result.outcome is Outcome.WRONG, result.reason
        assert reason in result.reason
        assert not result.timings


@pytest.mark.parametrize("planted", ["large_only"], indirect=True)
def test_right_when_checked_and_wrong_when_timed(lavapipe: VulkanDevice, planted: Bundle) -> None:
    assert run(lavapipe, planted, SMALL).outcome is Outcome.PASSED
    timed = run(lavapipe, planted, MILLION, Mode.PERFORMANCE)
    assert timed.outcome is Outcome.WRONG
    assert "elements of y are not exactly the reference" in timed.reason
    assert not timed.timings
    assert timed.verdict
    assert timed.verdict.first_bad.startswith("y[0,0,")
