"""Device selectors: which devices a word means. Every command asks here.

docs/devices.md has the same table for users. A word is taken as the first line that fits a device:

    0123456789ab, a UUID, a whole name   exactly that
    2                                    the device of that index: this machine's, or the only one
    host:gpu*                            all devices of these hosts
    gpu1/2, gpu*/H200                    what the rest means among the devices of these hosts
    NVIDIA*, *                           glob over names
    h200, 01234, gpu1                    part of the name, beginning of one key, or a whole host

Case never matters. Where the last line fits in several ways, or a beginning fits several keys, the
word is ambiguous: an error lists the candidates. A number of one or two digits is an index and
nothing else, so that `pause 2` never means an H200.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import NoReturn, Protocol, TypeVar

from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.words import names

LEAST_KEY = 4  # digits of a key that are enough to name it
INDEX_DIGITS = 2  # a number as short is an index and no part of a name
HELP = (
    "Devices by index, key, UUID, part of the name, host:NAME or HOST/INDEX; "
    "separate several with commas; '*' means all."
)

_BEST_FIRST = ("discrete", "integrated", "virtual", "other", "cpu")
_HOST = "host:"
_HEX = frozenset("0123456789abcdef")


class Selectable(Protocol):
    """What selectors compare of a device."""

    @property
    def key(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def uuid(self) -> str: ...


class Typed(Selectable, Protocol):
    """A device that also says which kind of hardware it is."""

    @property
    def type(self) -> str: ...


D = TypeVar("D", bound=Selectable)
T = TypeVar("T", bound=Typed)


class AmbiguousDevice(UsageError):
    """The selector may mean several devices."""

    def __init__(self, selector: str, may_be: Sequence[Selectable], advice: str) -> None:
        listed = [f"{d.host}/{d.index} ({d.name}, {d.key})" for d in may_be[: names.MOST_TOLD]]
        if len(may_be) > len(listed):
            listed.append(f"{len(may_be) - len(listed)} more")
        super().__init__(f"device '{selector}' may be {', '.join(listed)}: {advice}")


def choose(selectors: Sequence[str], known: Sequence[D], here: str = "") -> list[D]:
    """The devices that selectors mean, each once, in the order of `known`; no selector means all.

    `here` is this machine's name, which decides whose index a bare number is.
    """
    if not known:
        raise NothingToDo(
            "no device is known: start `vkbench scheduler`, and `vkbench worker` on a GPU host"
        )
    keys = {
        device.key
        for selector in selectors or ("*",)
        for device in _devices_meant_by(selector, known, here)
    }
    return [device for device in known if device.key in keys]


def one(selector: str, known: Sequence[D], here: str = "") -> D:
    """The one device that a selector means; AmbiguousDevice if it means several."""
    devices = choose([selector], known, here)
    if len(devices) > 1:
        raise AmbiguousDevice(selector, devices, "name one by its key or as HOST/INDEX")
    return devices[0]


def best(known: Sequence[T]) -> T:
    """The default device: the first one of the fastest kind."""
    return min(known, key=lambda device: (_BEST_FIRST.index(device.type), device.index))


def _devices_meant_by(selector: str, known: Sequence[D], here: str) -> list[D]:
    """What a selector means: taken whole, for names have commas too, else by its commas."""
    whole = _of_word(selector, known, here)
    words = [word for word in selector.split(",") if word.strip()]
    if whole or len(words) < 2:
        return whole or _refuse(selector, known)
    return [
        device
        for word in words
        for device in _of_word(word, known, here) or _refuse(word.strip(), known)
    ]


def _of_word(selector: str, known: Sequence[D], here: str) -> list[D]:
    word = selector.strip().casefold()
    if _is_index(word):
        return _device_by_number(word, known, here)
    return (
        _exactly(word, known)
        or _device_by_number(word, known, here)
        or _on_hosts(word, known, here)
        or [device for device in known if fnmatchcase(device.name.casefold(), word)]
        or _loosely(word, known)
    )


def _exactly(word: str, known: Sequence[D]) -> list[D]:
    uuid = word.replace("-", "")
    return [
        device
        for device in known
        if word in (device.key, device.name.casefold()) or uuid == device.uuid.casefold()
    ]


def _device_by_number(word: str, known: Sequence[D], here: str) -> list[D]:
    numbered = [device for device in known if word == str(device.index)]
    preferred = [device for device in numbered if device.host == here] or numbered
    if len(preferred) > 1:
        raise AmbiguousDevice(word, preferred, "name one by its key or as HOST/INDEX")
    return preferred


def _on_hosts(word: str, known: Sequence[D], here: str) -> list[D]:
    if word.startswith(_HOST):
        return _of_host(word.removeprefix(_HOST), known)
    host, slash, rest = word.partition("/")
    theirs = _of_host(host, known) if slash else []
    by_host = {device.host: [d for d in theirs if d.host == device.host] for device in theirs}
    return [device for of_host in by_host.values() for device in _of_word(rest, of_host, here)]


def _of_host(word: str, known: Sequence[D]) -> list[D]:
    return [device for device in known if fnmatchcase(device.host.casefold(), word)]


def _loosely(word: str, known: Sequence[D]) -> list[D]:
    """Devices by part of a name, beginning of a key, or host; AmbiguousDevice if these differ."""
    if not word:
        return []
    is_key = len(word) >= LEAST_KEY and set(word) <= _HEX
    begun = [device for device in known if is_key and device.key.startswith(word)]
    if len(begun) > 1:
        raise AmbiguousDevice(word, begun, "give more of the key")
    fits: tuple[Callable[[D], bool], ...] = (
        lambda device: word in device.name.casefold(),
        lambda device: word == device.host.casefold(),
    )
    ways = [begun, *([device for device in known if fit(device)] for fit in fits)]
    meant = [way for way in ways if way]
    if any(way != meant[0] for way in meant):
        every = [device for device in known if any(device in way for way in meant)]
        advice = f"give '*{word}*' for names, {_HOST}{word} for the host, or the whole key"
        raise AmbiguousDevice(word, every, advice)
    return meant[0] if meant else []


def _refuse(selector: str, known: Sequence[D]) -> NoReturn:
    """Raise UnknownName with the nearest names, keys and hosts; for an index with those known."""
    every = [device.name for device in known]
    names_of: dict[str, str] = {}
    if _is_index(selector):
        every = [f"{device.host}/{device.index}" for device in known]
    else:
        for device in known:
            names_of |= dict.fromkeys(device.name.split(), device.name)
            names_of |= {word: word for word in (device.name, device.key, device.host)}
    near = dict.fromkeys(names_of[word] for word in names.nearest(selector, list(names_of)))
    few = tuple(dict.fromkeys(every))
    raise UnknownName("device", selector, tuple(near), few if len(few) <= names.MOST_TOLD else ())


def _is_index(word: str) -> bool:
    return word.isdecimal() and len(word) <= INDEX_DIGITS
