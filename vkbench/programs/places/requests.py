"""Signs requests for builds by the keys of the fleet, and checks them.

Workers read and schedulers write, each by the keys of its role. A request is signed for its method,
its key, a time at which it expires and the hash of what it brings, so that whoever hears it can
only ask for the same again, for some minutes.
"""

from __future__ import annotations

import re
import time
from typing import Final

from vkbench.errors import VkbenchError
from vkbench.messages.signing import Keys, Role, Subject, Untrusted, seal, unseal

LIFE_SECONDS: Final = 600  # of a request; the clocks of two hosts may differ by as much
SCHEME: Final = "vkbench "
NO_BODY: Final = "-"  # in place of a hash
_PAYLOAD: Final = re.compile(rb"([0-9]{1,12}) ([0-9a-f]{64}|-)")


def sign_request(method: str, key: str, body_sha: str = "", *, keys: Keys) -> str:
    """What the header `Authorization` says of a request."""
    words = f"{int(time.time()) + LIFE_SECONDS} {body_sha or NO_BODY}"
    return SCHEME + seal(words.encode(), _subject(method, key), keys).decode()


def check_request(method: str, key: str, header: str, keys: Keys) -> str:
    """The hash of what a request brings; a VkbenchError says why it is refused."""
    if not header.startswith(SCHEME):
        raise Untrusted("the request is not signed")
    payload = unseal(header.removeprefix(SCHEME), _subject(method, key), keys)
    match = _PAYLOAD.fullmatch(payload)
    if not match:
        raise Untrusted("the request does not say when it expires")
    late = time.time() - int(match[1])
    if not -2 * LIFE_SECONDS <= late <= 0:
        raise VkbenchError(f"the request expired {late:.0f} s ago: is one of both clocks wrong?")
    return match[2].decode()


def _subject(method: str, key: str) -> Subject:
    role = Role.SCHEDULER if method == "PUT" else Role.WORKER
    return Subject(role=role, kind="build", place=f"{'PUT' if method == 'PUT' else 'GET'} {key}")
