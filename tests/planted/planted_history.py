"""The history of a lab as `vkbench export` writes it, with changes planted in it.

    python planted_history.py FILE [CASES [RUNS]]

A run a night: each case once on each device, hot and cold. What changes, and why, is in `Plan`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

import numpy as np

from vkbench.device import DeviceFacts, Environment, device_key
from vkbench.job import MAX_TRIES, JobState, Mode, Outcome
from vkbench.messages.wire import encode
from vkbench.result import Timing, Verdict, pack_samples
from vkbench_db.transfer.lines import (
    FORMAT,
    VERSION,
    AttemptLine,
    BundleLine,
    End,
    EnvironmentLine,
    Header,
    JobLine,
    RunLine,
)

NIGHT = 86_400.0
BEGAN = 1_760_000_000.0
FAMILIES = ("mul_mat_vec/q4_0/m{n}_n1_k256", "softmax/f32/rows{n}_width64", "copy/f32/n{n}")
METRICS = ("hot", "cold")
HELD = Verdict(
    passed=True,
    reason="",
    path="f32",
    nmse=1e-14,
    nmse_limit=1e-10,
    max_abs=1e-6,
    max_abs_limit=1e-3,
    compared=64,
    total=4096,
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of one case on one device, for good."""

    case: int
    run: int  # the first with the new level
    factor: float  # 0 is wrong from here on, less crashes
    cause: str  # kernel | environment | host | unknown
    device: int = 0
    until: int = 10**9  # the first run that is as before again


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a lab measures, and what happens to it."""

    cases: int = 100
    runs: int = 120
    devices: int = 1
    sigma: float = 0.01
    wander: float = 0.0  # amplitude of a slow wave, relative
    period: float = 44.0  # its length in runs
    steps: Sequence[Step] = ()
    seed: int = 1
    metrics: Sequence[str] = METRICS
    harmless: Mapping[int, int] = field(default_factory=dict)  # kernel of a case changes at a run


def file_lines(plan: Plan, runs: Sequence[int] | None = None) -> Iterator[str]:
    """Exports of the runs, one after the other."""
    rng = np.random.default_rng(plan.seed)
    shape = (plan.runs, plan.devices, plan.cases, len(plan.metrics))
    noise = rng.normal(0, plan.sigma, shape)
    turns = np.arange(plan.runs)[:, None, None, None] / plan.period + rng.random(shape[1:])
    noise += plan.wander * np.sin(2 * np.pi * turns)
    for run in range(plan.runs) if runs is None else runs:
        yield from _sealed(_records(plan, run, noise[run]))


def case_name(case: int) -> str:
    return FAMILIES[case % len(FAMILIES)].format(n=case + 1)


def device(index: int) -> DeviceFacts:
    host = f"lab{index}"
    return DeviceFacts(
        key=device_key(host, "00ff"),
        host=host,
        index=0,
        name="Planted 9000",
        uuid="00ff",
        vendor_id=1,
        device_id=1,
        type="discrete",
        memory_bytes=2**34,
        subgroup_size=32,
        features=("int8",),
        limits={},
    )


def environment(plan: Plan, run: int, device: int) -> Environment:
    """Its driver counts the environment steps that the device had."""
    causes = ("environment", "unknown")
    updates = _moments(plan, causes, device)
    return Environment(
        driver="planted",
        driver_version=f"550.{_passed(updates, run)}",
        driver_info="",
        api_version="1.3",
        loader="1.3",
        os="Debian 12",
        os_kernel="6.1",
        cpu=f"of lab{device}",
        vkbench="0.5.0",
    )


def bundle(plan: Plan, run: int) -> str:
    """SHA-256 of the bundle of a night: it changes with any kernel."""
    return _sha(_manifest(plan, run))


def _manifest(plan: Plan, run: int) -> str:
    changes = _moments(plan, ("kernel", "unknown")) | set(plan.harmless.values())
    return f"bundle {_passed(changes, run)}"


def kernel(plan: Plan, run: int, case: int) -> str:
    """SHA-256 of what a case runs."""
    changes = {step.run for step in plan.steps if step.case == case and _is_kernel(step)}
    changes |= {step.until for step in plan.steps if step.case == case and _is_kernel(step)}
    changes |= {plan.harmless[case]} if case in plan.harmless else set()
    return _sha(f"kernel {case} {_passed(changes, run)}")


def _is_kernel(step: Step) -> bool:
    return step.cause in ("kernel", "unknown")


def _moments(plan: Plan, causes: Sequence[str], device: int | None = None) -> set[int]:
    steps = [step for step in plan.steps if step.cause in causes]
    mine = [step for step in steps if device is None or step.device == device]
    return {moment for step in mine for moment in (step.run, step.until)}


def _passed(moments: set[int], run: int) -> int:
    return sum(moment <= run for moment in moments)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _factors(plan: Plan, run: int, device: int, case: int) -> list[float]:
    mine = [step for step in plan.steps if (step.case, step.device) == (case, device)]
    return [step.factor for step in mine if step.run <= run < step.until]


def _records(plan: Plan, run: int, noise: np.ndarray) -> Iterator[tuple[str, object]]:
    yield "header", Header(format=FORMAT, version=VERSION, jobs=plan.devices * plan.cases)
    yield (
        "run",
        RunLine(
            uuid=str(UUID(int=plan.seed << 32 | run)),
            created_at=BEGAN + run * NIGHT,
            user="ann",
            label=f"night {run}",
            tags={},
            selection={},
            mode=Mode.PERFORMANCE,
            priority=0,
            cancelled_at=None,
        ),
    )
    for index in range(plan.devices):
        yield "device", device(index)
    environments = [environment(plan, run, index) for index in range(plan.devices)]
    for each in environments:
        yield "environment", EnvironmentLine(hash=each.hash, facts=each)
    manifest = _manifest(plan, run)
    yield "bundle", BundleLine(sha=_sha(manifest), name="main", manifest=manifest, created_at=BEGAN)
    for index in range(plan.devices):
        for case in range(plan.cases):
            position = index * plan.cases + case
            factors = _factors(plan, run, index, case)
            values = 1e-4 * (1 + case % 7) * np.prod(factors) * np.exp(noise[index, case])
            yield "job", _job(plan, run, position, index, case, environments[index].hash, values)


def _job(
    plan: Plan, run: int, position: int, index: int, case: int, environment: str, values: np.ndarray
) -> JobLine:
    ended = BEGAN + run * NIGHT + position
    right = bool(values.all())
    crashes = bool((values < 0).any())
    attempt = AttemptLine(
        token=1,
        outcome=Outcome.PASSED if right else Outcome.WRONG,
        reason="" if right else "NMSE 0.5 is over 1e-10",
        variant="subgroup",
        kernel_sha=kernel(plan, run, case),
        environment=environment,
        worker="lab:1",
        started_at=ended - 1,
        seconds=0.5,
        telemetry={},
        recorded_at=ended,
        bundle=bundle(plan, run),
    )
    job = JobLine(
        position=position,
        device=device(index).key,
        case=case_name(case),
        mode=Mode.PERFORMANCE,
        variant="auto",
        bundle="",
        limit_seconds=60.0,
        measure_seconds=1.0,
        noise=0.005,
        estimate_seconds=0.5,
        state=JobState.PASSED if right else JobState.WRONG,
        token=1,
        tries=0,
        dispatches=1,
        finished_at=ended,
        settled_token=1,
        cause="",
        reason=attempt.reason,
        attempts=(attempt,),
        verdict=HELD if right else replace(HELD, passed=False, reason=attempt.reason, nmse=0.5),
        timings=tuple(map(_timing, plan.metrics, map(float, values))) if right else (),
    )
    return _crashed(job) if crashes else job


def _crashed(job: JobLine) -> JobLine:
    """The job as it is after three runners died of it."""
    [good] = job.attempts
    died = replace(good, outcome=Outcome.CRASHED, reason="SIGSEGV", variant="", kernel_sha="")
    tries = tuple(
        replace(died, token=number, started_at=(good.started_at or 0.0) + number / 4)
        for number in range(1, MAX_TRIES + 1)
    )
    return replace(
        job,
        state=JobState.FAILED,
        cause=Outcome.CRASHED,
        reason=died.reason,
        token=MAX_TRIES,
        tries=MAX_TRIES,
        dispatches=MAX_TRIES,
        settled_token=None,
        attempts=tries,
        verdict=None,
        timings=(),
    )


def _timing(metric: str, seconds: float) -> Timing:
    return Timing(
        metric=metric,
        seconds=seconds,
        mad=seconds / 200,
        low=seconds * 0.995,
        high=seconds * 1.005,
        confidence=0.95,
        best=seconds * 0.98,
        count=20,
        launches=1,
        stop="noise",
        clock="gpu",
        bytes_moved=10_000_000,
        flops=1_000_000,
        samples=pack_samples(np.linspace(seconds * 0.98, seconds * 1.02, 20)),
    )


def _sealed(records: Iterator[tuple[str, object]]) -> Iterator[str]:
    digest, jobs = hashlib.sha256(), 0
    for kind, record in records:
        line = _line(kind, record)
        digest.update(line.encode())
        jobs += kind == "job"
        yield line
    yield _line("end", End(jobs=jobs, sha256=digest.hexdigest()))


def _line(kind: str, record: object) -> str:
    return encode({kind: record}).decode() + "\n"


def planted(cases: int, runs: int) -> Plan:
    """One case of five changes, once; the causes take turns, slower and faster ones too."""
    causes = ("kernel", "environment", "host", "kernel", "unknown")
    rng = np.random.default_rng(7)
    night = {cause: int(rng.integers(runs // 4, 3 * runs // 4)) for cause in causes}
    factors = (1.05, 1.1, 0.95, 1.2, 0.9, 1.07)
    steps = [
        Step(case=case, run=night[cause], factor=factors[n % len(factors)], cause=cause)
        for n, case in enumerate(range(0, cases, 5))
        for cause in (causes[n % len(causes)],)
    ]
    return Plan(cases=cases, runs=runs, steps=steps)


if __name__ == "__main__":
    target, *numbers = sys.argv[1:]
    wanted = planted(*(int(number) for number in numbers or (100, 120)))
    Path(target).write_text("".join(file_lines(wanted)))
