"""Reads announcements; what a worker says again each second is checked once.

All but the stamp at its end stays the same from one second to the next. The signature covers the
whole text, and is verified each time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from vkbench.bounds import complaints
from vkbench.device import has_own_key
from vkbench.messages import wire
from vkbench.messages.signing import Keys, unseal
from vkbench.messages.stamps import UNSTAMPED, Stamp
from vkbench.messages.wire import Announcement, MalformedMessage

_STAMP: Final = b',"stamp":'  # no text within JSON holds these bytes: its quotes are escaped

_MOST_KEPT_BYTES: Final = 1 << 15  # of an announcement; that of a GPU has 3,000


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A worker's last announcement of its device, as text and as read."""

    text: bytes  # as far as the stamp
    announcement: Announcement  # without its stamp


class Announced:
    """The announcements as they were read last."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._heard: dict[str, Heard] = {}  # by device

    def read(self, device: str, word: bytes) -> tuple[Announcement, Stamp]:
        """An announcement without its stamp, and the stamp; VkbenchError unless both are good."""
        payload = unseal(word, wire.about(Announcement, device), self._keys)
        text, _, end = payload.rpartition(_STAMP)
        heard = self._heard.get(device)
        if heard and heard.text == text and (stamp := _stamp(end)):
            return heard.announcement, stamp
        stamped = wire.decode(payload, Announcement)
        wire.check(stamped)
        if stamped.facts.key != device or not has_own_key(stamped.facts):
            raise MalformedMessage("the device's key is not that of its host and UUID")
        announcement = replace(stamped, stamp=UNSTAMPED)
        if len(text) <= _MOST_KEPT_BYTES and stamped.stamp == _stamp(end):
            self._heard[device] = Heard(text=text, announcement=announcement)
        return announcement, stamped.stamp

    def forget(self, devices: Collection[str]) -> None:
        """Forget what was said of these devices."""
        for device in devices:
            self._heard.pop(device, None)


def _stamp(end: bytes) -> Stamp | None:
    """The stamp that an announcement ends with, if it ends so."""
    if not end.endswith(b"}"):
        return None
    try:
        stamp = wire.decode(end[:-1], Stamp)
    except MalformedMessage:
        return None
    return None if any(complaints(stamp)) else stamp
