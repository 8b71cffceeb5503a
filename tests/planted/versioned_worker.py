"""A worker of another version: VKBENCH_REQUIRE tells it the protocols that it speaks.

Protocol 1 is what was spoken before messages were signed; others are to come.
"""

import os
from dataclasses import replace

from vkbench.messages import signing, wire
from vkbench.messages.wire import Announcement
from vkbench_worker.service import lease, sender
from vkbench_worker.service.main import main

SPOKEN = tuple(int(word) for word in os.environ["VKBENCH_REQUIRE"].split(","))


def pack(record: object, keys: signing.Keys, place: str = "") -> bytes:
    """A message as that version writes it."""
    if isinstance(record, Announcement):
        record = replace(record, speaks=SPOKEN)
    return signing.seal(wire.encode(record), wire.about(type(record), place), keys, max(SPOKEN))


class Wire:
    """The module with another way to pack."""

    def __getattr__(self, name: str) -> object:
        return pack if name == "pack" else getattr(wire, name)


if __name__ == "__main__":
    signing.SPOKEN = SPOKEN  # type: ignore[assignment]
    vars(lease)["wire"] = vars(sender)["wire"] = Wire()
    main()
