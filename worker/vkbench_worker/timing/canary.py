"""A pinned case, timed now and then before a timed job: whether the device is what it was.

It is always the packaged bundle's, and its seconds travel with every result after it. A timing
unlike the one before is taken twice and the faster one counts, for a blip slows only one. A file
tells the next process of the last one, for a runner may not live as long as a pause.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vkbench import calibration
from vkbench.errors import VkbenchError, WrongResult
from vkbench.job import AUTO
from vkbench.messages import wire
from vkbench.process.plain_file import replace_file
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.device import Device
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.measure import SampleBounds, measure_hot
from vkbench_worker.timing.timed import check

LEAST_PAUSE_SECONDS: Final = 10.0
MOST_SHARE: Final = 0.01  # of the device's time
ALIKE: Final = 0.01  # change from the one before that is nothing to look at twice
LIMIT_SECONDS: Final = 10.0  # for one submission
BOUNDS: Final = SampleBounds(seconds=0.1, noise=0.001)


@dataclass(frozen=True, kw_only=True)
class CanaryMemory:
    """What one process leaves for the next."""

    environment: str = ""  # hash
    due: float = 0.0  # Unix time
    readings: Mapping[str, float] = field(default_factory=dict)


class CanaryTimer:
    """Times the canary of one device before timed jobs, and remembers what it found."""

    def __init__(
        self,
        device: Device,
        bundle_of: Callable[[str], Bundle],
        folder: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._device = device
        self._bundle_of = bundle_of
        self._clock = clock
        self._file = folder / f"{device.facts.key}.canary"
        self._memory = self._read_memory()

    @property
    def readings(self) -> Mapping[str, float]:
        """For the telemetry of results; nothing where there was none."""
        return self._memory.readings

    def look(self) -> None:
        """Time it if it is due; a device that cannot have one has none."""
        began = self._clock()
        if began < self._memory.due:
            return
        readings: Mapping[str, float] = {}
        try:
            readings = self._take_readings()
        except VkbenchError as error:  # a lost device is what the job itself will meet
            print(f"no canary: {error}", file=sys.stderr)
        ended = self._clock()
        self._memory = CanaryMemory(
            environment=self._device.environment.hash,
            due=ended + max(LEAST_PAUSE_SECONDS, (ended - began) / MOST_SHARE),
            readings=readings,
        )
        with suppress(OSError):  # the next process takes its own then
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._file, wire.encode(self._memory))

    def _read_memory(self) -> CanaryMemory:
        try:
            memory = wire.decode(self._file.read_bytes(), CanaryMemory)
        except (OSError, wire.MalformedMessage):
            return CanaryMemory()
        return memory if memory.environment == self._device.environment.hash else CanaryMemory()

    def _take_readings(self) -> Mapping[str, float]:
        device = self._device
        device.patience_seconds = LIMIT_SECONDS
        problem = catalogue.problem(calibration.canary_of(device.facts.type))
        chosen = choose(problem, AUTO, device.facts)
        prepared = SHELF.get(problem)
        with ExitStack() as stack:
            planned = plan(self._bundle_of(""), chosen, device.facts)
            bench = Bench(device, planned, prepared.storages, stack)
            device.stop_making()
            verdict = check(bench, chosen.variant.arithmetic, prepared).verdict
            if not verdict.passed:
                raise WrongResult(f"{problem.case.name} is wrong: {verdict.reason}")
            with SHELF.pause_preparing():
                seconds = self._time_canary(bench)
        return {calibration.CANARY_SECONDS: seconds, calibration.CANARY_AT: self._clock()}

    def _time_canary(self, bench: Bench) -> float:
        before = self.readings.get(calibration.CANARY_SECONDS)
        first = self._once(bench)
        if before and abs(first - before) <= ALIKE * before:
            return first
        return min(first, self._once(bench))

    def _once(self, bench: Bench) -> float:
        timing = measure_hot(self._device, bench.work, bench.buffers, bench.seconds, BOUNDS)
        return timing.seconds
