"""What this scheduler has counted since it began; docs/metrics.md says what each name means."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from vkbench.messages.wire import Chunk
from vkbench.result import Result

MOST_DEVICES = 512  # of a label: results name their devices, and a broken worker names anything
OTHER = "other"

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

DISPATCHED = Counter(
    "vkbench_jobs_dispatched", "Jobs sent to workers.", ["device"], registry=REGISTRY
)
ATTEMPTS = Counter(
    "vkbench_attempts", "Results taken from the stream.", ["device", "outcome"], registry=REGISTRY
)
BUSY = Counter(
    "vkbench_device_busy_seconds",
    "Seconds that devices spent on jobs.",
    ["device"],
    registry=REGISTRY,
)
LOST = Counter(
    "vkbench_jobs_lost", "Jobs queued again that no worker held any more.", registry=REGISTRY
)
REFUSED = Counter(
    "vkbench_messages_refused",
    "Messages that could not be understood or stored.",
    ["kind"],
    registry=REGISTRY,
)
RECORDED_AT = Gauge(
    "vkbench_last_record_timestamp_seconds",
    "When results were last written to SQL; 0 if never.",
    registry=REGISTRY,
)
for _kind in ("result", "announcement", "unrecordable", "wish", "strange"):
    REFUSED.labels(_kind)

_devices: set[str] = set()


def count_sent(chunks: Iterable[Chunk]) -> None:
    """Count the jobs of chunks that were published."""
    for chunk in chunks:
        DISPATCHED.labels(_label(chunk.device)).inc(len(chunk.jobs))


def count_recorded(results: Iterable[Result], now: float) -> None:
    """Count results that were written to SQL."""
    RECORDED_AT.set(now)
    for result in results:
        ATTEMPTS.labels(_label(result.device), result.outcome.value).inc()
        BUSY.labels(_label(result.device)).inc(max(0.0, result.seconds))


def _label(device: str) -> str:
    if device not in _devices and len(_devices) >= MOST_DEVICES:
        return OTHER
    _devices.add(device)
    return device or OTHER
