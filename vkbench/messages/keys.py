"""Keys that sign messages: files of a folder, one file for each role, one key a line."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Protocol

from vkbench.errors import UsageError
from vkbench.messages.signing import NO_KEYS, Keys, Role
from vkbench.messages.urls import hide_password, is_local

KEY_BYTES = 32


class KeySettings(Protocol):
    """What the settings say of keys."""

    @property
    def keys(self) -> str:
        """The folder, or ""."""

    @property
    def redis(self) -> str:
        """The URL of Redis."""

    @property
    def unsigned(self) -> bool:
        """Whether messages may cross a network unsigned."""


def read_keys(settings: KeySettings) -> Keys:
    """The keys in the folder VKBENCH_KEYS; none if it is not set."""
    if not settings.keys:
        return NO_KEYS
    folder = Path(settings.keys).expanduser()
    return Keys(scheduler=_read(folder, Role.SCHEDULER), worker=_read(folder, Role.WORKER))


def keys_for(settings: KeySettings) -> Keys:
    """The keys of a service; UsageError if it needs some and has none."""
    keys = read_keys(settings)
    if keys.worker or settings.unsigned or is_local(settings.redis):
        return keys
    raise UsageError(
        f"messages would cross the network to {hide_password(settings.redis)} unsigned: "
        "`vkbench key new FOLDER` makes keys; copy them to each worker and scheduler, and set "
        "VKBENCH_KEYS=FOLDER there (VKBENCH_UNSIGNED=1 goes without: whoever reaches Redis then "
        "gives work and results)"
    )


def new_keys(folder: Path, *, add: bool = False) -> list[Path]:
    """Make a key for each role; with `add` each file gets one more, which verifies only."""
    files = [_file(folder, role) for role in Role]
    there = [path for path in files if path.exists()]
    if there and not add:
        raise UsageError(f"{there[0]} exists: --add makes a second key for a change of keys")
    if add and len(there) < len(files):
        raise UsageError(f"there are no keys in {folder}: leave --add away to make the first ones")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in files:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "w") as file:
            print(secrets.token_hex(KEY_BYTES), file=file)
    return files


def _file(folder: Path, role: Role) -> Path:
    return folder / f"{role}.key"


def _read(folder: Path, role: Role) -> tuple[bytes, ...]:
    path = _file(folder, role)
    try:
        lines = path.read_text().split()
        keys = tuple(bytes.fromhex(line) for line in lines)
    except OSError as error:
        raise UsageError(f"VKBENCH_KEYS: {path}: {error.strerror}") from None
    except ValueError:  # its text may hold a part of the key
        keys = ()
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise UsageError(f"VKBENCH_KEYS: {path} holds no keys: `vkbench key new` makes some")
    return keys
