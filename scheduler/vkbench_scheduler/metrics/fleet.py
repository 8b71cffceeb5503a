"""The state of the fleet, read from SQL and Redis when Prometheus asks; and the port it asks at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from prometheus_client import start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import Redis
from redis.exceptions import ResponseError

from vkbench.errors import ServiceUnreachable, UsageError
from vkbench.messages import wire
from vkbench.messages.signing import Keys
from vkbench.process import alive
from vkbench_db.ask.devices.queues import Queue, queues
from vkbench_db.database import Database
from vkbench_detection.regress.inbox import count_open
from vkbench_scheduler.metrics.counters import REGISTRY
from vkbench_scheduler.queue.border import reach_redis
from vkbench_scheduler.queue.presence import Presence

HERE = "127.0.0.1"


def serve(place: str, collector: FleetCollector) -> None:
    """Serve metrics at `[HOST:]PORT` from a thread; OSError if it cannot listen there."""
    host, port = parse(place)
    REGISTRY.register(collector)
    start_http_server(port, host, REGISTRY)


def parse(place: str) -> tuple[str, int]:
    """Host and port of `[HOST:]PORT`."""
    host, _, port = place.rpartition(":")
    if not (port.isdecimal() and 0 < int(port) < 2**16):
        raise UsageError(f"'{place}' is no [HOST:]PORT: write 9109 or 0.0.0.0:9109")
    return host.strip("[]") or HERE, int(port)


class FleetCollector(Collector):
    """Collects gauges from the database and Redis; says which of them does not answer."""

    def __init__(
        self, database: Database, redis: Redis, keys: Keys, data: Path, service: str
    ) -> None:
        self._database = database
        self._redis = redis
        self._presence = Presence(redis, keys)
        self._data = data  # where the threads of `service` leave signs of life
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Describe no metric in advance: all of them depend on what answers."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read the gauges of queues, devices and Redis."""
        queues, leased = self._queues(), self._stream()
        yield from self._regressions()
        yield _one("vkbench_database_up", "Whether the database answers.", queues is not None)
        yield _one("vkbench_redis_up", "Whether Redis answers.", leased is not None)
        yield from _of_devices(queues or ())
        if leased is not None:
            yield from (_one(name, text, value) for name, text, value in leased)
        yield from self._up(queues or ())
        yield self._silence()

    def _queues(self) -> list[Queue] | None:
        try:
            with self._database.reading() as tx:
                return queues(tx)
        except ServiceUnreachable:
            return None

    def _regressions(self) -> Iterator[Metric]:
        """How many regressions are open, by what they are and what brought them."""
        try:
            with self._database.reading() as tx:
                counts = count_open(tx)
        except ServiceUnreachable:
            return
        metric = GaugeMetricFamily(
            "vkbench_regressions_open",
            "Regressions that are open, by direction and cause.",
            labels=["direction", "cause"],
        )
        for names, count in counts.items():
            metric.add_metric(list(names), float(count))
        yield metric

    def _stream(self) -> list[tuple[str, str, float]] | None:
        try:
            with reach_redis():
                length, memory = self._redis.xlen(wire.RESULTS), self._redis.info("memory")
                group = self._group()
        except ServiceUnreachable:
            return None
        used = cast(Mapping[str, float], memory)["used_memory"]
        lag, pending = group.get("lag"), group.get("pending")
        return [
            ("vkbench_results_stream_length", "Results in the stream.", float(length)),
            ("vkbench_results_unread", "Results that no collector has read.", float(lag or 0)),
            ("vkbench_results_pending", "Results read and not yet in SQL.", float(pending or 0)),
            ("vkbench_redis_memory_bytes", "Memory that Redis uses.", float(used)),
        ]

    def _group(self) -> Mapping[str, float | None]:
        with suppress(ResponseError):  # no stream yet
            groups = self._redis.xinfo_groups(wire.RESULTS)
            own_groups = (group for group in groups if group["name"] == wire.RESULTS_GROUP.encode())
            return next(own_groups, {})
        return {}

    def _up(self, queues: Iterable[Queue]) -> Iterator[Metric]:
        keys = [queue.key for queue in queues]
        try:
            leases = self._presence.leases(keys)
        except ServiceUnreachable:
            return
        metric = GaugeMetricFamily(
            "vkbench_device_up", "Whether a worker holds the device's lease.", labels=["device"]
        )
        for key in keys:
            metric.add_metric([key], float(key in leases))
        yield metric

    def _silence(self) -> Metric:
        metric = GaugeMetricFamily(
            "vkbench_thread_silent_seconds",
            "Time since a thread of the scheduler ended a turn.",
            labels=["thread"],
        )
        for thread, age in alive.ages(self._data, self._service).items():
            metric.add_metric([thread], age)
        return metric


def _of_devices(queues: Iterable[Queue]) -> Iterator[Metric]:
    now = time.time()
    labels = ["device"]
    jobs = GaugeMetricFamily(
        "vkbench_jobs", "Jobs that have not ended.", labels=["device", "state"]
    )
    oldest = GaugeMetricFamily(
        "vkbench_oldest_job_age_seconds", "Age of the oldest unfinished job's run.", labels=labels
    )
    paused = GaugeMetricFamily("vkbench_device_paused", "Whether it gets no jobs.", labels=labels)
    info = GaugeMetricFamily(
        "vkbench_device_info", "1; its labels name the device.", labels=["device", "host", "name"]
    )
    for queue in queues:
        jobs.add_metric([queue.key, "queued"], queue.queued)
        jobs.add_metric([queue.key, "in_flight"], queue.in_flight)
        oldest.add_metric([queue.key], max(0.0, now - (queue.oldest_at or now)))
        paused.add_metric([queue.key], float(queue.paused))
        info.add_metric([queue.key, queue.host, queue.name], 1.0)
    yield from (jobs, oldest, paused, info)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))
