"""Devices that say what workers say and compute nothing, hundreds of them in one process.

    python tests/planted/simulated_fleet.py DEVICES

Each device renews its lease and its announcement each second as `vkbench_worker` does, signed where
there are keys, and answers the jobs of one message at the next second, whatever time it says that
they took.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from redis import Redis

import planted_runner
from vkbench.job import Job, Mode, Outcome
from vkbench.messages import wire
from vkbench.messages.keys import keys_for
from vkbench.messages.redis_client import connect
from vkbench.messages.signing import Keys
from vkbench.messages.stamps import Stamps
from vkbench.messages.wire import Announcement, Chunk, Lease
from vkbench.result import Result, Timing, Verdict, pack_samples
from vkbench.settings import settings
from vkbench_shaders.bundle import packaged_sha

BEAT_SECONDS = 1.0
SLICES = 20  # of the devices, which beat one after the other in a second
FEATURES = tuple(f"feature_{number}" for number in range(40))  # as many as a GPU's
LIMITS = {f"limit_{number}": 1 << number for number in range(20)}
EXTRA = {f"host_{number}": "x" * 40 for number in range(6)}


@dataclass(kw_only=True)
class Device:
    """One device, and the jobs that it holds."""

    announcement: Announcement
    jobs: list[Job] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Its name in queues and tables."""
        return self.announcement.facts.key


def device(number: int, keys: Keys) -> Device:
    """One device, eight of them on a host; it says as much of itself as a GPU does."""
    host = replace(settings(), host=f"host{number // 8}")
    facts = replace(planted_runner.facts(f"{number}", host), features=FEATURES, limits=LIMITS)
    return Device(
        announcement=Announcement(
            worker=f"{host.host}:{number}",
            facts=facts,
            environment=replace(planted_runner.environment(), extra=EXTRA),
            bundle=packaged_sha(),
            speaks=keys.protocols,
        )
    )


class Fleet:
    """Devices that share one connection."""

    def __init__(self, redis: Redis, keys: Keys, count: int, job_seconds: float = 0.1) -> None:
        self.devices = [device(number, keys) for number in range(count)]
        self._redis = redis
        self._keys = keys
        self._stamps = Stamps(redis)
        self._job_seconds = job_seconds

    def beat(self, devices: Sequence[Device]) -> int:
        """What the workers of these devices do in a second; returns how many jobs they ended."""
        stamp = self._stamps.next()
        ended = [each for each in devices if each.jobs]
        with self._redis.pipeline(transaction=False) as pipe:
            for each in ended:
                for job in each.jobs:
                    content = wire.pack(answer(job, each, self._job_seconds), self._keys)
                    pipe.xadd(wire.RESULTS, {wire.RESULT_FIELD: content})
            pipe.execute()
        count = sum(len(each.jobs) for each in ended)
        for each in ended:
            each.jobs = []
        idle = [each for each in devices if not each.jobs]
        with self._redis.pipeline(transaction=False) as pipe:
            for each in idle:
                pipe.rpop(wire.queue_of(each.key))
            for each, message in zip(idle, pipe.execute(), strict=True):
                if message:
                    self._take(each, message)
        with self._redis.pipeline(transaction=False) as pipe:
            for each in devices:
                held = tuple((job.id, job.token) for job in each.jobs)
                lease = Lease(
                    worker=each.announcement.worker, jobs=held, running=bool(held), stamp=stamp
                )
                said = replace(each.announcement, stamp=stamp)
                pipe.get(wire.recall_of(each.key))
                pipe.set(
                    wire.lease_of(each.key),
                    wire.pack(lease, self._keys, each.key),
                    ex=wire.LEASE_SECONDS,
                )
                pipe.set(
                    wire.announcement_of(each.key),
                    wire.pack(said, self._keys, each.key),
                    ex=wire.ANNOUNCE_SECONDS,
                )
                pipe.sadd(wire.DEVICES, each.key)
            pipe.execute()
        return count

    def live(self) -> None:
        """Beat for ever, a slice of the devices after the other."""
        slices = [self.devices[first::SLICES] for first in range(SLICES)]
        while True:
            for each in slices:
                began = time.monotonic()
                self.beat(each)
                time.sleep(max(0.0, began + BEAT_SECONDS / SLICES - time.monotonic()))

    def _take(self, device: Device, message: bytes) -> None:
        said = json.loads(base64.b64decode(json.loads(message)["body"]))[0][0]
        chunk = wire.unpack(said, Chunk, self._keys, device.key)
        device.jobs = list(chunk.jobs)


SAMPLES = pack_samples([1e-5 * (1 + number / 1000) for number in range(20)])
VERDICT = Verdict(
    passed=True,
    reason="",
    path="f32",
    nmse=1e-14,
    nmse_limit=1e-10,
    max_abs=1e-6,
    max_abs_limit=1e-3,
    compared=4096,
    total=4096,
)


def answer(job: Job, device: Device, seconds: float) -> Result:
    """What a device says of a job: it passed, and was timed hot and cold where that was asked."""
    metrics = ("hot", "cold") if job.mode is Mode.PERFORMANCE else ()
    return Result(
        job=job.id,
        token=job.token,
        outcome=Outcome.PASSED,
        case=job.case,
        device=device.key,
        worker=device.announcement.worker,
        variant="subgroup",
        kernel_sha="2" * 64,
        bundle=device.announcement.bundle,
        environment=device.announcement.environment.hash,
        started=time.time(),
        seconds=seconds,
        verdict=VERDICT,
        timings=tuple(timing(metric, job.token + job.id) for metric in metrics),
        telemetry={"clock_mhz": 1500.0, "temperature": 55.0, "power_watts": 300.0},
    )


def timing(metric: str, seed: int) -> Timing:
    """A timing with some noise."""
    seconds = 1e-5 * (1 + 0.005 * (seed * 7919 % 997) / 997)
    return Timing(
        metric=metric,
        seconds=seconds,
        mad=seconds / 500,
        low=seconds * 0.999,
        high=seconds * 1.001,
        confidence=0.95,
        best=seconds * 0.99,
        count=20,
        launches=100,
        stop="noise",
        clock="gpu",
        bytes_moved=10**6,
        flops=2 * 10**6,
        samples=SAMPLES,
    )


if __name__ == "__main__":
    Fleet(connect(settings().redis), keys_for(settings()), int(sys.argv[1])).live()
