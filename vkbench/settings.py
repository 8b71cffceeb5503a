"""Settings: every VKBENCH_* environment variable, read into one frozen record here alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from vkbench import names
from vkbench.errors import UnknownName, UsageError

PREFIX = "VKBENCH_"
TESTS_ONLY = "VKBENCH_REQUIRE"  # read by tests/conftest.py


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One field a variable: `database` is VKBENCH_DATABASE."""

    database: str = ""  # SQLAlchemy URL; default: SQLite in the data folder
    redis: str = "redis://127.0.0.1:6379/0"
    host: str = ""  # this host's name in results; default: the system's
    data: Path = Path("~/.local/share/vkbench")  # the local database and locks
    cache: Path = Path("~/.cache/vkbench")  # bundles, pipeline caches, references
    device: str = ""  # device selector when a command names none
    slangc: str = ""  # a Slang compiler to use instead of the packaged one
    runner: str = "vkbench_worker.runner"  # module that owns the device, run with python -m
    validation: bool = False  # Khronos validation layer on, its messages are errors
    window_seconds: float = 4.0  # work kept in Redis for one device
    chunk_seconds: float = 1.5  # work in one message
    lost_seconds: float = 6.0  # a dispatched job that nobody holds is looked for after this

    def database_url(self) -> str:
        """The database to use: the one set, or a SQLite file in the data folder."""
        return self.database or f"sqlite:///{self.data / 'vkbench.db'}"


@cache
def settings() -> Settings:
    """The settings of this process; `settings.cache_clear()` after changing the environment."""
    return read(os.environ)


def read(environ: Mapping[str, str]) -> Settings:
    """Settings from variables; an unknown VKBENCH_ name or a malformed value is a UsageError."""
    _check_names(environ)
    values: dict[str, object] = {"host": socket.gethostname()}
    for field in fields(Settings):
        text = environ.get(_variable(field.name), "")
        if text:
            values[field.name] = _parse(field.name, text, field.default)
    for name in ("data", "cache"):
        values[name] = Path(str(values.get(name, getattr(Settings, name)))).expanduser()
    return Settings(**values)  # type: ignore[arg-type]


def _variable(field: str) -> str:
    return PREFIX + field.upper()


def _check_names(environ: Mapping[str, str]) -> None:
    known = [_variable(field.name) for field in fields(Settings)]
    for name in environ:
        if name.startswith(PREFIX) and name not in (*known, TESTS_ONLY):
            raise UnknownName("variable", name, names.nearest(name, known))


def _parse(name: str, text: str, default: object) -> object:
    try:
        if isinstance(default, bool):
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        return type(default)(text)  # type: ignore[call-arg]
    except (KeyError, ValueError) as error:
        raise UsageError(f"{_variable(name)}={text!r} is not a {type(default).__name__}") from error
