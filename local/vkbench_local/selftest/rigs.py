"""Simulated devices: what their cases take, by bundle, driver and night, and which noise they have.

A result is a level times the noise of its night and of its job. Levels follow from steps: one that
a kernel brings is there in bundles from a night on, one of a driver while that driver is installed,
one of the host in those nights whatever is installed.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, prod

import numpy as np

from vkbench.device import DeviceFacts, Environment, device_key
from vkbench.result import HOT
from vkbench_db.work.store import StoredBundle
from vkbench_detection.changes.decisions import Cause
from vkbench_detection.statistics import synthetic
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.synthetic import Noise

FOREVER = 1_000_000
SECONDS = 1e-4  # that a case takes before anything changes


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of what a case takes, for good or until a night."""

    night: int
    factor: float
    cause: Cause
    until: int = FOREVER
    metrics: Sequence[str] = ("hot", "cold")
    is_wanted: bool = True  # whether people have to hear of it

    def holds(self, night: int, metric: str) -> bool:
        """Whether the step's change is in what was new in a night."""
        return self.night <= night < self.until and metric in self.metrics


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A case on a device: what happens to it, and the noise of its nights."""

    case: str
    steps: Sequence[Step] = ()
    touched: Sequence[int] = ()  # nights with another kernel that is as fast
    is_gradual: bool = False  # its steps are one slow change
    noise: Noise
    days: Mapping[str, Floats]  # logarithms that all jobs of a night share, by metric
    nightly: Mapping[str, Floats]  # those, and what the job of the night has for itself

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics that are timed."""
        return list(self.nightly)

    def level(self, metric: str, bundle: int, driver: int, night: int) -> float:
        """Seconds by a bundle and a driver that were new in these nights."""
        new = {Cause.KERNEL: bundle, Cause.ENVIRONMENT: driver, Cause.HOST: night}
        steps = (step for step in self.steps if step.holds(new[step.cause], metric))
        return SECONDS * prod(step.factor for step in steps)

    def kernel(self, bundle: int) -> str:
        """SHA-256 of the kernel in a bundle that was new in a night."""
        mine = [step for step in self.steps if step.cause == Cause.KERNEL]
        moments = {moment for step in mine for moment in (step.night, step.until)}
        moments |= set(self.touched)
        return _sha(f"{self.case} {sum(moment <= bundle for moment in moments)}")


def stream(
    number: int,
    noise: Noise,
    rng: np.random.Generator,
    nights: int,
    *,
    steps: Sequence[Step] = (),
    touched: Sequence[int] = (),
    metrics: Sequence[str] = (HOT,),
) -> Stream:
    """The case of a number, with the noise of all its nights drawn."""
    days = {metric: synthetic.days(noise, rng, 1, nights)[0] for metric in metrics}
    own = {metric: synthetic.jobs(noise, rng, (1, nights))[0] for metric in metrics}
    return Stream(
        case=f"add/f32/b1_c1_h{number + 1}_w400",
        steps=steps,
        touched=touched,
        noise=noise,
        days=days,
        nightly={metric: days[metric] + own[metric] for metric in metrics},
    )


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A simulated device, its cases, and what is installed on it when."""

    name: str
    streams: Sequence[Stream]
    builds: Sequence[int] = (0,)  # nights with a new bundle, whatever kernels it changes
    updates: Sequence[int] = (0,)  # nights with a new driver that changes nothing
    away: frozenset[int] = field(default_factory=frozenset)  # nights in which it did nothing
    rng: np.random.Generator  # of the noise of pairs

    @cached_property
    def bundles(self) -> Sequence[int]:
        """The nights with a new bundle."""
        touched = {night for stream in self.streams for night in stream.touched}
        return sorted({0, *self.builds, *touched, *self._moments(Cause.KERNEL)})

    @cached_property
    def drivers(self) -> Sequence[int]:
        """The nights with another driver."""
        return sorted({0, *self.updates, *self._moments(Cause.ENVIRONMENT)})

    def _moments(self, cause: Cause) -> set[int]:
        steps = [step for stream in self.streams for step in stream.steps if step.cause == cause]
        return {at for step in steps for at in (step.night, step.until) if at < FOREVER}

    @property
    def key(self) -> str:
        """The key of the rig's device."""
        return device_key(self.name, "00")

    @property
    def facts(self) -> DeviceFacts:
        """What the device says of itself."""
        return DeviceFacts(
            key=self.key,
            host=self.name,
            index=0,
            name=f"Simulated {self.name}",
            uuid="00",
            vendor_id=0,
            device_id=0,
            type="discrete",
            memory_bytes=8 << 30,
            subgroup_size=32,
            features=(),
            limits={},
        )

    def build(self, night: int) -> int:
        """The night in which the bundle of a night was new."""
        return self.bundles[bisect_right(self.bundles, night) - 1]

    def driver(self, night: int) -> int:
        """The night in which the driver of a night was new."""
        return self.drivers[bisect_right(self.drivers, night) - 1]

    def bundle(self, build: int) -> StoredBundle:
        """The bundle that was new in a night: no device could run it."""
        manifest = json.dumps({"version": 2, "slang": "none", "tree": f"{self.name} {build}"})
        text = f"no SPIR-V: {self.name} {build}".encode()
        return StoredBundle(
            sha=_sha(manifest),
            name=f"night-{build}",
            manifest=manifest,
            blobs={hashlib.sha256(text).hexdigest(): text},
        )

    def version(self, night: int) -> str:
        """The driver of a night: the same one again where an update is undone, or comes again."""
        driver = self.driver(night)
        updates = sum(at <= driver for at in self.updates)
        steps = [step for stream in self.streams for step in stream.steps]
        theirs = {(s.night, s.until, s.factor) for s in steps if s.cause == Cause.ENVIRONMENT}
        there = sorted(factor for since, until, factor in theirs if since <= driver < until)
        return "+".join([f"{self.name}.{updates}", *(f"{factor:.4f}" for factor in there)])

    def environment(self, night: int) -> Environment:
        """The software of a night."""
        version = self.version(night)
        return Environment(
            driver="Simulated",
            driver_version=version,
            driver_info=version,
            api_version="1.4",
            loader="1.4",
            os="",
            os_kernel="",
            cpu="",
            vkbench="",
        )

    def result(self, which: Stream, metric: str, night: int) -> float:
        """Seconds of the night's own job."""
        level = which.level(metric, self.build(night), self.driver(night), night)
        return level * exp(float(which.nightly[metric][night]))

    def arm(self, which: Stream, metric: str, build: int, night: int) -> float:
        """Seconds of one arm of a pair that a night measures."""
        level = which.level(metric, build, self.driver(night), night)
        own = float(synthetic.jobs(which.noise, self.rng, (1, 1))[0, 0])
        return level * exp(float(which.days[metric][night]) + own)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
