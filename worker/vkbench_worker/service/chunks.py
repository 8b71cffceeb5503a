"""Reads what comes from the queue: a chunk that a scheduler signed for this device, lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redis import Redis

from vkbench.errors import VkbenchError
from vkbench.job import Job
from vkbench.messages import wire
from vkbench.messages.signing import BARE, Keys, Untrusted, unseal
from vkbench.messages.stamps import Stamp, check_age
from vkbench.messages.wire import Chunk
from vkbench_worker.service.claims import CLAIM_SECONDS
from vkbench_worker.service.connection import persist

OLDEST_SECONDS = CLAIM_SECONDS // 2  # of a chunk: the claims of its jobs live longer


class Unreadable(VkbenchError):
    """A chunk is from a scheduler, and this version cannot read its jobs."""

    def __init__(self, error: VkbenchError, jobs: Sequence[Addressed]) -> None:
        super().__init__(f"this worker cannot read the job: {error}")
        self.jobs = jobs


@dataclass(frozen=True, kw_only=True)
class Addressed:
    """The fields of a job that every version has."""

    id: int
    token: int
    case: str = ""


@dataclass(frozen=True, kw_only=True)
class Outline:
    """The fields of a chunk that every version has."""

    jobs: tuple[Addressed, ...]
    sent: int = 0


def jobs_of(message: object, device: str, keys: Keys, redis: Redis) -> Sequence[Job]:
    """The jobs of a chunk; a VkbenchError says why they are not to be run.

    Stale if it is so old that their claims may be gone: its scheduler sends them again.
    """
    payload = _payload(message, device, keys)
    try:
        chunk = _record(payload, Chunk)
    except wire.MalformedMessage as error:
        outline = _record(payload, Outline)
        _check_age(outline.sent, redis)
        raise Unreadable(error, outline.jobs) from error
    if chunk.device != device:
        raise Untrusted(f"a chunk for {chunk.device} came to {device}")
    _check_age(chunk.sent, redis)
    wire.check(chunk)
    return chunk.jobs


def _check_age(sent: int, redis: Redis) -> None:
    check_age(Stamp(sent=sent), persist(redis.time, "time")[0], OLDEST_SECONDS)


def _payload(message: object, device: str, keys: Keys) -> object:
    if isinstance(message, str):
        return unseal(message, wire.about(Chunk, device), keys)
    if BARE in keys.protocols:
        return message
    raise Untrusted("Chunk is not signed: the scheduler has no keys, or is an older version")


def _record(payload: object, kind: type[wire.T]) -> wire.T:
    if isinstance(payload, bytes):
        return wire.decode(payload, kind)
    return wire.from_builtins(payload, kind)
