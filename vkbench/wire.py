"""How records travel and under which names: JSON by msgspec, Redis keys, Celery task and queues.

Scheduler and worker never import each other; this module is where they meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, cast

import msgspec

from vkbench.device import DeviceFacts, Environment
from vkbench.errors import VkbenchError
from vkbench.job import Job

T = TypeVar("T")

CHUNK_TASK = "vkbench.chunk"  # Celery task: one argument, a Chunk as built-in types
RESULTS = "vk:results"  # stream of Result, one field RESULT_FIELD
RESULTS_GROUP = "collector"
RESULT_FIELD = "r"
DEVICES = "vk:devices"  # set of device keys that ever announced themselves
WANTED = "vk:bundles:wanted"  # set of bundle hashes that a worker lacks
LEASE_SECONDS = 4  # life of a lease; renewed every second
CLAIMS = 2**15  # bits of a bitmap of claims: 4 KB
ANNOUNCE_SECONDS = 15  # life of a device's announcement


class MalformedMessage(VkbenchError):
    """A message is not what this version of vkbench understands."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Jobs that travel together to one device."""

    device: str
    jobs: tuple[Job, ...]
    version: int = 1


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What a worker holds at this moment; expires by itself."""

    worker: str
    jobs: tuple[tuple[int, int], ...]  # (job, token), the one on the device first
    running: bool = False  # whether the first one is on the device
    leaving: bool = False  # takes no more jobs: the worker was told to stop


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """A worker's word that it serves a device."""

    worker: str
    facts: DeviceFacts
    environment: Environment
    bundle: str  # hash of the packaged bundle there


def queue_of(device: str) -> str:
    """The Celery queue (and Redis list) of one device."""
    return f"vk:queue:{device}"


def lease_of(device: str) -> str:
    return f"vk:lease:{device}"


def claim_of(job: int, token: int) -> tuple[str, int]:
    """The bitmap of claims, and the bit in it, of a (job, token): a claimed job takes one bit."""
    return f"vk:claim:{token}:{job // CLAIMS}", job % CLAIMS


def cancel_of(run: int) -> str:
    return f"vk:cancel:{run}"


def recall_of(device: str) -> str:
    return f"vk:recall:{device}"


def announcement_of(device: str) -> str:
    return f"vk:device:{device}"


def bundle_of(sha: str) -> str:
    return f"vk:bundle:{sha}"


def refusal_of(sha: str) -> str:
    """The key that says why no scheduler brings a bundle."""
    return f"vk:bundle:{sha}:refused"


def encode(record: object) -> bytes:
    """A record as JSON."""
    return msgspec.json.encode(_lean(record))


def decode(data: bytes | str, kind: type[T]) -> T:
    """A record from JSON, every field checked; MalformedMessage says what is off."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"malformed {kind.__name__}: {error}") from error


def to_builtins(record: object) -> object:
    """A record as dictionaries, lists, strings and numbers."""
    return msgspec.to_builtins(_lean(record))


def _lean(record: object) -> object:
    """Jobs without a file say nothing of one: their messages are as before there were any."""
    match record:
        case Chunk():
            return {name: getattr(record, name) for name in ("device", "version")} | {
                "jobs": [_lean(job) for job in record.jobs]
            }
        case Job(source=None):
            fields = msgspec.to_builtins(record)
            fields.pop("source", None)  # msgspec sets no None of its own in what it decodes
            return cast(object, fields)
    return record


def from_builtins(data: object, kind: type[T]) -> T:
    """A record from dictionaries, lists, strings and numbers, every field checked."""
    try:
        return msgspec.convert(data, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedMessage(f"malformed {kind.__name__}: {error}") from error
