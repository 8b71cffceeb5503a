"""Records from JSON and from tables, by msgspec, in any number of threads.

msgspec lists the fields of a type when it first meets it, and shows other threads the unfinished
list: two threads that meet a type at the same time end the process. Here one thread lists them.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_listing = Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type, made once."""
    if kind not in _decoders:
        with _listing:
            _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]


def decode(data: bytes | str, kind: type[T]) -> T:
    """A record from JSON, every field checked, or an error of msgspec."""
    return decoder_of(kind).decode(data)


def convert(table: object, kind: type[T]) -> T:
    """A record from dictionaries, lists, strings and numbers, every field checked."""
    decoder_of(kind)
    return msgspec.convert(table, type=kind)
