"""Contained runners on real drivers: their jobs pass, and mutated kernels harm nothing else."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from planted_mutant import FIRST
from vkbench.job import SETTLED, Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import Sandbox, Settings, settings
from vkbench_worker.containment.support import support
from vkbench_worker.owner.supervisor import Supervisor

PLANTED = Path(__file__).parents[1] / "planted"
CASES = (
    "copy/f32/n1000",
    "argsort/f32/h70_w10",
    "softmax/f32/b1_c1_h5_w33",
    "dequantize/q4_0/m7_k256",
)
MUTANTS = int(os.environ.get("FUZZ_EXAMPLES", "20"))


@pytest.fixture
def required(monkeypatch: pytest.MonkeyPatch) -> Settings:
    if not support().is_enough:
        pytest.skip(f"this kernel does not contain a process: {support().lacks[0]}")
    monkeypatch.setenv("PYTHONPATH", str(PLANTED), prepend=os.pathsep)
    return replace(settings(), sandbox=Sandbox.REQUIRE)


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
def test_a_contained_runner_does_its_jobs(
    driver: str, request: pytest.FixtureRequest, required: Settings
) -> None:
    device = request.getfixturevalue(driver).facts
    jobs = [
        Job(id=1, token=1, case=CASES[0], mode=Mode.CORRECTNESS),
        Job(id=2, token=1, case=CASES[0], mode=Mode.PERFORMANCE, measure_seconds=0.05),
    ]
    results: list[Result] = []
    with Supervisor(device.key, replace(required, host=device.host)) as supervisor:
        supervisor.run(jobs, results.append)
    assert [(result.outcome, result.reason) for result in results] == [(Outcome.PASSED, "")] * 2
    assert list((required.data / "canaries").iterdir())  # written from inside


@pytest.mark.timeout(60 + 3 * MUTANTS)
def test_mutated_kernels_harm_no_other_job(lavapipe: object, required: Settings) -> None:
    """FUZZ_EXAMPLES=10000 tries more."""
    ours = replace(required, runner="planted_mutant")
    results: list[Result] = []
    with Supervisor("llvmpipe", ours) as supervisor:
        for number in range(MUTANTS):
            case = CASES[number % len(CASES)]
            mutant = Job(
                id=FIRST + number, token=1, case=case, mode=Mode.CORRECTNESS, limit_seconds=3
            )
            good = replace(mutant, id=1 + number, limit_seconds=60)
            supervisor.run([mutant, good] if number % 3 == 0 else [mutant], results.append)
    print(Counter(result.outcome for result in results if result.job >= FIRST))
    good_ones = [result for result in results if result.job < FIRST]
    assert good_ones
    assert {result.outcome for result in good_ones} == {Outcome.PASSED}
    assert len(results) == MUTANTS + len(good_ones)
    for result in results:
        assert result.reason or result.outcome is Outcome.PASSED
    failed = {result.outcome for result in results} - {Outcome.PASSED}
    assert failed, "no mutation changed anything"
    died = {Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.DEVICE_LOST}
    assert failed <= {*SETTLED, *died, Outcome.ERROR}
