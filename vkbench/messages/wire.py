"""How records travel and under which names: JSON by msgspec, Redis keys, Celery task and queues.

Scheduler and worker never import each other; this module is where they meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar, cast

import msgspec

from vkbench import decoding
from vkbench.bounds import complaints, is_id
from vkbench.device import DeviceFacts, Environment, HostDriver, OwnDrivers
from vkbench.errors import VkbenchError
from vkbench.job import Job, Mode
from vkbench.messages.signing import BARE, PROTOCOL, Keys, Role, Subject, seal, unseal
from vkbench.messages.stamps import UNSTAMPED, Stamp
from vkbench.result import Result

T = TypeVar("T")

CHUNK_TASK = "vkbench.chunk"  # Celery task: one argument, a Chunk as a signed message
RESULTS = "vk:results"  # stream of signed Result, one field RESULT_FIELD
RESULTS_GROUP = "collector"
RESULT_FIELD = "r"
DEVICES = "vk:devices"  # set of device keys that ever announced themselves
WANTED = "vk:bundles:wanted"  # set of signed bundle hashes that a worker lacks
UNFIT = "vk:unfit"  # Unfit: what keeps a scheduler from its work
LEASE_SECONDS = 4  # life of a lease; renewed every second
RECALL_SECONDS = 10  # life of a recall; said again each second
REFUSAL_SECONDS = 10  # in which workers read why a bundle is refused; then they may ask again
WISH_SECONDS = 30  # in which a scheduler answers a wish
CLAIMS = 2**15  # bits of a bitmap of claims: 4 KB
ANNOUNCE_SECONDS = 15  # life of a device's announcement
QUEUE_SECONDS = 7 * 24 * 3600  # life of what a worker that never returns has left in its queue


class MalformedMessage(VkbenchError):
    """A message is not what this version of vkbench understands."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Jobs that travel together to one device."""

    device: str
    jobs: tuple[Job, ...]
    version: int = BARE  # read by workers that know no other protocol; messages say theirs
    sent: int = 0  # seconds by the clock of Redis; a chunk that does not say is refused as old


@dataclass(frozen=True, kw_only=True)
class Word:
    """What a wish, a recall or a refusal says."""

    stamp: Stamp
    text: str = ""  # the bundle that is wished for; why one is refused


@dataclass(frozen=True, kw_only=True)
class Lease:
    """What a worker holds at this moment; expires by itself."""

    worker: str
    jobs: tuple[tuple[int, int], ...]  # (job, token), the one on the device first
    running: bool = False  # whether the first one is on the device
    leaving: bool = False  # takes no more jobs: the worker was told to stop
    stamp: Stamp = UNSTAMPED


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """A worker's word that it serves a device."""

    worker: str
    facts: DeviceFacts
    environment: Environment
    bundle: str  # hash of the packaged bundle there
    speaks: tuple[int, ...] = (BARE,)  # protocols of chunks that it reads
    knows: tuple[str, ...] = ()  # names of the scheduler's keys that it verifies with
    refused: str = ""  # why it did not run the last chunk that it was sent
    lacking: Mapping[str, str] = field(default_factory=dict)  # bundle that it awaits -> why
    skew: int = 0  # seconds that its host's clock is ahead of that of Redis
    # that were added on its host; None: an older worker, which runs jobs through its own alone
    drivers: tuple[HostDriver, ...] | None = None
    own_drivers: OwnDrivers | None = None  # None: an older worker, which copies none
    through: tuple[Environment, ...] = ()  # of results that came through a driver, the newest last
    stamp: Stamp = UNSTAMPED


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """What keeps a scheduler from its work: workers that it cannot use, and strangers' doings."""

    devices: Mapping[str, str]  # key -> why its worker is sent nothing
    lacking: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # bundles, by device
    clocks: Mapping[str, int] = field(default_factory=dict)  # skews of hosts whose clocks are wrong
    strange: Mapping[str, str] = field(default_factory=dict)  # key of Redis -> what was found there
    stamp: Stamp = UNSTAMPED


_ROLES: Mapping[type[object], Role] = {
    Unfit: Role.SCHEDULER,
    Chunk: Role.SCHEDULER,
    Lease: Role.WORKER,
    Announcement: Role.WORKER,
    Result: Role.WORKER,
}
# A worker asks for a bundle by a Word. The bundle itself needs no signature: its name is its hash.
WISH = Subject(role=Role.WORKER, kind="wish")


def queue_of(device: str) -> str:
    """The Celery queue (and Redis list) of one device."""
    return f"vk:queue:{device}"


def unacknowledged_of(device: str) -> tuple[str, str, str]:
    """Where kombu keeps what a device's worker took and has not answered: hash, index, lock."""
    return f"unacked:{device}", f"unacked:{device}:index", f"unacked:{device}:mutex"


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


def cancel_subject(run: int) -> Subject:
    return Subject(role=Role.SCHEDULER, kind="cancel", place=str(run))


def recall_subject(device: str) -> Subject:
    return Subject(role=Role.SCHEDULER, kind="recall", place=device)


def refusal_subject(sha: str) -> Subject:
    return Subject(role=Role.SCHEDULER, kind="refusal", place=sha)


def pack(record: object, keys: Keys, place: str = "", version: int = PROTOCOL) -> bytes:
    """A record as a signed message for or about a place (device)."""
    return seal(encode(record), about(type(record), place), keys, version)


def unpack(message: bytes | str, kind: type[T], keys: Keys, place: str = "") -> T:
    """A record that a holder of the keys sent; any other message is a VkbenchError."""
    record = decode(unseal(message, about(kind, place), keys), kind)
    check(record)
    return record


def check(record: object) -> None:
    """MalformedMessage unless a record is within the bounds of what databases keep.

    A result has bounds of its own: its job has to end, whatever a runner says.
    """
    complaints_found: Iterator[str] = iter(())
    match record:
        case Announcement():
            complaints_found = complaints(record)
        case Lease():
            complaints_found = chain(complaints(record), _strange_ids(record.jobs))
        case Chunk():
            complaints_found = chain(
                _strange_ids((job.id, job.token) for job in record.jobs),
                _complaints_about_pairs(record.jobs),
            )
    for complaint in complaints_found:
        raise MalformedMessage(f"malformed {type(record).__name__}: {complaint}")


def _strange_ids(jobs: Iterable[tuple[int, int]]) -> Iterator[str]:
    for job, token in jobs:
        if not (is_id(job) and is_id(token)):
            yield f"job {job}, token {token}: these are no numbers of a job"


def _complaints_about_pairs(jobs: Iterable[Job]) -> Iterator[str]:
    for job in jobs:
        if (job.mode is Mode.PAIRED) != (job.pair is not None):
            yield f"job {job.id} is {job.mode}, and that does not go with its pair {job.pair}"


def say(subject: Subject, stamp: Stamp, keys: Keys, text: str = "") -> bytes:
    """A wish, a recall or a refusal as a signed message."""
    return seal(encode(Word(stamp=stamp, text=text)), subject, keys)


def hear(message: bytes, subject: Subject, keys: Keys) -> Word:
    """A wish, recall or refusal that a holder of the keys sent; any other is a VkbenchError."""
    return decode(unseal(message, subject, keys), Word)


def about(kind: type[object], place: str) -> Subject:
    """The subject of a record's message."""
    return Subject(role=_ROLES[kind], kind=kind.__name__, place=place)


def encode(record: object) -> bytes:
    """A record as JSON."""
    return msgspec.json.encode(_lean(record))


def decode(data: bytes | str, kind: type[T]) -> T:
    """A record from JSON, every field checked; MalformedMessage says what is off."""
    try:
        return decoding.decode(data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"malformed {kind.__name__}: {error}") from error


def to_builtins(record: object) -> object:
    """A record as dictionaries, lists, strings and numbers."""
    return msgspec.to_builtins(_lean(record))


def _lean(record: object) -> object:
    """The job without empty fields for files and pairs, which older workers do not know.

    Workers of older versions read what a pair is from three fields of the job.
    """
    match record:
        case Chunk():
            return {name: getattr(record, name) for name in ("device", "version", "sent")} | {
                "jobs": [_lean(job) for job in record.jobs]
            }
        case Job(source=None) | Job(pair=None):
            fields = msgspec.to_builtins(record)
            # msgspec sets no None of its own in what it decodes
            for name in ("source", "pair"):
                if getattr(record, name) is None:
                    fields.pop(name, None)
            return cast(object, fields | _flat_pair(record))
        case Job():
            return cast(object, msgspec.to_builtins(record) | _flat_pair(record))
    return record


def _flat_pair(job: Job) -> dict[str, object]:
    if not job.pair:
        return {}
    pair = job.pair
    return {"against": pair.old.name, "metric": pair.metric, "new_first": pair.new_first}


def from_builtins(data: object, kind: type[T]) -> T:
    """A record from dictionaries, lists, strings and numbers, every field checked."""
    try:
        return decoding.convert(data, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedMessage(f"malformed {kind.__name__}: {error}") from error
