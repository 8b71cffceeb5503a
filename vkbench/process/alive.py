"""Signs of life: each thread of a service touches a file as it goes on, and a check reads the ages.

Files rather than a port: whoever checks runs beside the service, and nothing has to listen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LEAST_SECONDS = 1.0  # between two touches of one file

_last: dict[Path, float] = {}  # monotonic


def beat(data: Path, service: str, part: str) -> None:
    """Leave a sign of life of a service's part; a full disk does not stop it."""
    path = _folder(data, service) / part
    if time.monotonic() - _last.get(path, float("-inf")) < LEAST_SECONDS:
        return
    _last[path] = time.monotonic()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def expect(data: Path, service: str, parts: Iterable[str]) -> None:
    """Forget the parts of an earlier process; from now on these have to go on."""
    leave(data, service, list(ages(data, service)))
    for part in parts:
        beat(data, service, part)


def leave(data: Path, service: str, parts: Iterable[str]) -> None:
    """Remove the signs of life of parts that stop on purpose."""
    for part in parts:
        path = _folder(data, service) / part
        _last.pop(path, None)
        with suppress(OSError):
            path.unlink(missing_ok=True)


def ages(data: Path, service: str) -> dict[str, float]:
    """For how many seconds each part of a service has been silent; none if it does not run."""
    silent = {}
    with suppress(OSError):
        for path in sorted(_folder(data, service).iterdir()):
            silent[path.name] = max(0.0, time.time() - path.stat().st_mtime)
    return silent


def _folder(data: Path, service: str) -> Path:
    return data / "alive" / service
