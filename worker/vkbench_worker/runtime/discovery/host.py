"""What the host says of itself without a driver: system, kernel, processor, processor caches."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_SCALE = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def os_name() -> str:
    """The system, as /etc/os-release names it."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def kernel_release() -> str:
    """The running kernel, as `uname -r` says it."""
    return platform.release()


@cache
def cpu_llc_bytes() -> int:
    """Bytes of the largest cache of the first processor, 0 where the system does not say."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((_bytes(_read(size)) for size in sizes), default=0)


def _bytes(text: str) -> int:
    text = text.strip()
    if text[-1:] in _SCALE and text[:-1].isdigit():
        return int(text[:-1]) * _SCALE[text[-1]]
    return int(text) if text.isdigit() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
