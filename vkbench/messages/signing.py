"""Signs messages that cross Redis, and checks them: version, sender's role, place and content.

A message is `vk2 SIGNATURE PAYLOAD`, or `vk2 - PAYLOAD` where there are no keys. The signature is
an HMAC-SHA256 over version, subject and payload, so that no message passes for another. This form
stays the same in all protocols; before protocol 2 a message was its payload alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from vkbench.errors import VkbenchError

PROTOCOL = 2  # of what this version writes
BARE = 1  # of messages that are their payload alone
SPOKEN = (1, 2)  # what this version can read, and write to those who know no other
UNSIGNED = b"-"

_MARK = b"vk"


class Role(StrEnum):
    """Who says something; each role has keys of its own."""

    SCHEDULER = "scheduler"
    WORKER = "worker"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of each role: the first one signs, each verifies; none where nothing is signed."""

    scheduler: tuple[bytes, ...] = ()
    worker: tuple[bytes, ...] = ()

    def of(self, role: Role) -> tuple[bytes, ...]:
        """The keys of one role."""
        return self.scheduler if role is Role.SCHEDULER else self.worker

    @cached_property
    def protocols(self) -> tuple[int, ...]:
        """The protocols that can be spoken: bare messages have no signature."""
        return tuple(protocol for protocol in SPOKEN if protocol != BARE or not self.scheduler)

    def __repr__(self) -> str:  # no log shows a key
        return f"Keys({len(self.scheduler)} of the scheduler, {len(self.worker)} of workers)"


NO_KEYS = Keys()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a message is about: who says it, what kind of thing, for or about which place."""

    role: Role
    kind: str
    place: str = ""  # device, run or bundle

    def __str__(self) -> str:
        return f"{self.kind} of {self.place}" if self.place else self.kind


class Untrusted(VkbenchError):
    """A message is not signed, or by nobody who has the keys."""


class KeyAwaited(Untrusted):
    """A worker lacks the key that its scheduler signs with."""


class OtherProtocol(VkbenchError):
    """A message is of a protocol that this version does not read."""

    def __init__(self, version: int, payload: bytes, keys: Keys) -> None:
        super().__init__(
            f"it speaks protocol {version}, this host {name_protocols(keys.protocols)}"
        )
        self.version = version
        self.payload = payload  # its signature is right


def names_of(keys: Iterable[bytes]) -> tuple[str, ...]:
    """A name for each key: who has the key makes the same one, and it gives nothing away."""
    return tuple(hmac.digest(key, b"vkbench\0name of a key", "sha256").hex()[:16] for key in keys)


def name_protocols(protocols: tuple[int, ...]) -> str:
    """Protocols as people read them."""
    return " or ".join(map(str, protocols)) or "none"


def seal(payload: bytes, subject: Subject, keys: Keys, version: int = PROTOCOL) -> bytes:
    """A message with this payload, signed if there are keys."""
    if version == BARE:
        return payload
    signing = keys.of(subject.role)
    signature = _signature(signing[0], version, subject, payload) if signing else UNSIGNED
    return b"%s%d %s %s" % (_MARK, version, signature, payload)


def unseal(message: bytes | str, subject: Subject, keys: Keys) -> bytes:
    """The payload of a message; Untrusted or OtherProtocol if it is not to be used."""
    data = message.encode() if isinstance(message, str) else message
    version, signature, payload = _parts(data)
    verifying = keys.of(subject.role)
    if not verifying and signature != UNSIGNED:
        raise Untrusted(f"{subject} is signed, and this host has no keys: set VKBENCH_KEYS")
    if verifying:
        _verify(signature, version, subject, payload, verifying)
    if version not in keys.protocols:
        raise OtherProtocol(version, payload, keys)
    return payload


def _verify(
    signature: bytes, version: int, subject: Subject, payload: bytes, keys: tuple[bytes, ...]
) -> None:
    if signature == UNSIGNED:
        raise Untrusted(f"{subject} is not signed: its sender has no keys, or is an older version")
    known = [_signature(key, version, subject, payload) for key in keys]
    # Every key is tried, so that the time says nothing of which one fits.
    if not sum(hmac.compare_digest(signature, expected) for expected in known):
        raise Untrusted(f"{subject} has a wrong signature: its sender has other keys")


def _parts(data: bytes) -> tuple[int, bytes, bytes]:
    """Version, signature and payload."""
    head, *rest = data.split(b" ", 2)
    number = head.removeprefix(_MARK)
    if len(rest) == 2 and head.startswith(_MARK) and number.isdigit() and len(number) < 5:
        return int(number), rest[0], rest[1]
    return BARE, UNSIGNED, data


def _signature(key: bytes, version: int, subject: Subject, payload: bytes) -> bytes:
    about = f"vkbench\0{version}\0{subject.role}\0{subject.kind}\0{subject.place}\0"
    return hmac.digest(key, about.encode() + payload, "sha256").hex().encode()
