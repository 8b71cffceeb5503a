"""URLs of servers: as messages show them, without a password, and where they lead."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from vkbench.errors import UsageError

HIDDEN = "***"
REDIS_FORMS = (
    "expected redis://USER:PASSWORD@HOST:PORT/NUMBER, or rediss:// for TLS; "
    "in a password write / as %2F, ? as %3F, # as %23 and @ as %40"
)
_REDIS_PORT = 6379
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SECRET = re.compile(r"([?&][^=&#]*(?:pass|pwd|secret|token)[^=&#]*=)[^&#]*", re.IGNORECASE)


def hide_password(url: str) -> str:
    """A URL, or what was meant to be one, without its password.

    A password may hold any characters, since people forget to encode them: all between the first
    colon after the user and the last `@` is hidden.
    """
    scheme = match[0] if (match := _SCHEME.match(url)) else ""
    access, at, place = url.removeprefix(scheme).rpartition("@")
    user, colon, _ = access.partition(":")
    if colon:
        access = f"{user}:{HIDDEN}"
    return _SECRET.sub(rf"\1{HIDDEN}", f"{scheme}{access}{at}{place}")


def redis_place(url: str) -> tuple[str, int]:
    """Host and port of a Redis server; UsageError if the URL is malformed."""
    malformed = UsageError(f"malformed Redis URL '{hide_password(url)}': {REDIS_FORMS}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or _REDIS_PORT
    except ValueError:  # its text may hold a part of the password
        raise malformed from None
    if parts.scheme == "unix":
        return "", 0
    if parts.scheme not in ("redis", "rediss") or "@" in f"{parts.path}{parts.query}":
        raise malformed
    return host, port


def is_local(url: str) -> bool:
    """Whether a Redis server is reached without a network: by a socket, or by loopback."""
    host, _ = redis_place(url)
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False
