"""The result of a case for one number of shards, and on which devices it was measured.

Its code path says how the case was divided, so that no series has it beside the undivided case:
`portable:shards=4` took turns on one device, `portable:devices=4-1f3e9a,shards=4` was side by side
on four, and the digits tell these four from others. `pieces=2` says that each shard did its columns
in two pieces.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vkbench import configuration
from vkbench.case import Value
from vkbench.configuration import PIECES, SHARDS, Configuration
from vkbench.device import Environment
from vkbench.job import Outcome
from vkbench.result import COPIES, HOT, Result, Timing
from vkbench_worker.runtime.device import Device
from vkbench_worker.shards.shards import Shards
from vkbench_worker.timing import telemetry
from vkbench_worker.timing.measure import few
from vkbench_worker.timing.summary import Sampling, timing_of

CHANGED = "outputs changed while they were timed"


@dataclass(frozen=True, kw_only=True)
class Sharded:
    """What came of a case in so many shards."""

    count: int
    devices: tuple[str, ...]  # names of those that had a shard
    is_simulated: bool  # one device did all shards in turn
    requested: str  # code path asked for, and how the case was divided
    result: Result
    environment: Environment


def outcome(shards: Shards, requested: str, seconds: float) -> Sharded:
    """Judge the shards as one result, and time them for so long with copies and without."""
    started, clock = time.time(), time.perf_counter()
    devices = list(dict.fromkeys(shards.devices))
    divided = _settings_of_division(devices, len(shards.devices), shards.pieces)
    verdict = shards.judge_parts()
    timings: Sequence[Timing] = ()
    if verdict.passed:
        timings = [*_timings(shards, seconds)]
        if len(timings) < len(_METRICS):
            verdict = replace(verdict, passed=False, reason=CHANGED)
    environment = _environment(devices)
    result = Result(
        job=0,
        token=0,
        outcome=Outcome.PASSED if verdict.passed else Outcome.WRONG,
        case=shards.problem.case.name,
        reason=verdict.reason,
        variant=_name_variant(shards.variant, divided),
        settings=configuration.text_of(divided),
        kernel_sha=shards.kernel_sha,
        bundle=shards.bundle,
        verdict=verdict,
        timings=tuple(timings) if verdict.passed else (),
        device=devices[0].facts.key,
        environment=environment.hash,
        started=started,
        seconds=time.perf_counter() - clock,
        telemetry=telemetry.read(devices[0].facts, devices[0].pci_address),
    )
    return Sharded(
        count=len(shards.devices),
        devices=tuple(device.facts.name for device in devices),
        is_simulated=shards.is_simulated,
        requested=_name_variant(requested, divided),
        result=result,
        environment=environment,
    )


_METRICS = ((HOT, False), (COPIES, True))


def _timings(shards: Shards, seconds: float) -> Iterator[Timing]:
    """Both metrics, or those before the one during which outputs changed."""
    for metric, moves in _METRICS:
        samples = shards.time_shards(seconds, moves=moves)
        if not shards.still_right():
            return
        how = Sampling(
            metric=metric,
            launches=1,
            clock="host",
            bytes_moved=shards.problem.bytes_moved,
            flops=shards.problem.flops,
            warnings=(*_how(shards), *few(len(samples))),
        )
        yield timing_of(samples, how)


def _how(shards: Shards) -> tuple[str, ...]:
    if shards.is_simulated:
        return ("simulated: one device did all shards in turn, and the slowest counts",)
    if len(shards.devices) == 1:
        return ()
    return (f"side by side on {', '.join(device.facts.name for device in shards.devices)}",)


def _settings_of_division(
    devices: Sequence[Device], count: int, pieces: int
) -> Mapping[str, Value]:
    """How a case is divided, as settings of its code path."""
    division: dict[str, Value] = {SHARDS: count}
    if pieces > 1:
        division[PIECES] = pieces
    if len(devices) == 1:
        return division
    keys = ",".join(device.facts.key for device in devices)
    digits = hashlib.sha256(keys.encode()).hexdigest()[:6]
    return division | {"devices": f"{len(devices)}-{digits}"}


def _name_variant(name: str, divided: Mapping[str, Value]) -> str:
    known = configuration.parse(name)
    return Configuration(variant=known.variant, settings={**known.settings, **divided}).name


def _environment(devices: Sequence[Device]) -> Environment:
    """The first device's, with those of the others where they are not the same."""
    first, *others = [device.environment for device in devices]
    beside = sorted({other.hash for other in others} - {first.hash})
    if not beside:
        return first
    return replace(first, extra={**first.extra, "beside": ",".join(beside)})
