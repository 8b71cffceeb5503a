"""Settings: every VKBENCH_* environment variable, read into one frozen record here alone.

What may hold a password can lie in a file instead: VKBENCH_REDIS_FILE names one with what would be
VKBENCH_REDIS, so that no list of variables shows it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from urllib.parse import quote

from vkbench.errors import UnknownName, UsageError
from vkbench.process import log
from vkbench.words import names

PREFIX = "VKBENCH_"
OF_FILE = "_FILE"  # ends the name of a variable that names a file with the value
TESTS_ONLY = "VKBENCH_REQUIRE"  # read by tests/conftest.py
ANY, PACKAGED = "any", "packaged"  # what VKBENCH_BUNDLES may be beside a file
NONE = "none"  # what VKBENCH_BUILDS may be beside a file


class Sandbox(StrEnum):
    """Whether processes that load a driver are contained."""

    AUTO = "auto"  # as far as the kernel can
    REQUIRE = "require"  # or none starts
    OFF = "off"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One field a variable: `database` is VKBENCH_DATABASE."""

    # SQLAlchemy URL; default: SQLite in the data folder
    database: str = field(default="", repr=False)
    # of the fleet: carries jobs and results
    redis: str = field(default="redis://127.0.0.1:6379/0", repr=False)
    redis_ca: str = ""  # file with the certificates that a rediss:// server is verified with
    keys: str = ""  # folder with the keys that sign messages; `vkbench key new` makes it
    unsigned: bool = False  # unsigned messages may cross the network
    host: str = ""  # this host's name in results; default: the system's
    data: Path = Path("~/.local/share/vkbench")  # the local database and locks
    cache: Path = Path("~/.cache/vkbench")  # bundles, pipeline caches, references
    device: str = ""  # device selector when a command names none
    slangc: str = ""  # a Slang compiler to use instead of the packaged one
    ggml: str = ""  # folder of llama.cpp's llama-bench and ggml's libraries; default: PATH
    runner: str = "vkbench_worker.runner.main"  # module that owns the device, run with python -m
    sandbox: Sandbox = Sandbox.AUTO  # whether processes that load a driver are contained
    robust: bool = True  # devices check the bounds of kernels that are not this package's
    validation: bool = False  # Khronos validation layer on, its messages are errors
    gpu_assisted: bool = False  # with validation: the layer has shaders check what they access too
    bundles: str = "any"  # whose bundles this host runs: any, packaged, or a file that lists them
    bundle_megabytes: int = 4000  # fetched bundles that a worker keeps; those used last stay
    builds: str = "none"  # whose builds this host runs: none, or a file of their public SSH keys
    build_key: Path = Path("~/.ssh/id_ed25519")  # SSH key that signs the builds that you submit
    build_megabytes: int = 20_000  # fetched builds that a worker keeps; those used last stay
    # where builds lie for all hosts: a folder, or a URL of the scheduler's host or of fsspec
    store: str = field(default="", repr=False)
    model_megabytes: int = 40_000  # files of seeded models in the cache; those used last stay
    window_seconds: float = 4.0  # work kept in Redis for one device
    chunk_seconds: float = 1.5  # work in one message
    lost_seconds: float = 6.0  # a dispatched job that no worker holds is looked for after this
    stop_seconds: float = 60.0  # a stopping worker hands its running job back after this
    log_format: str = "text"  # of services: text, or json for one object a line
    alert_webhook: str = field(default="", repr=False)  # URL that regressions are told to
    alert_secret: str = field(default="", repr=False)  # what the webhook's messages are signed with
    alert_urls: str = field(default="", repr=False)  # chat or mail: URLs of apprise, by blanks
    issues: str = ""  # where regressions are issues: github:OWNER/NAME or gitlab:GROUP/NAME
    issues_token: str = field(default="", repr=False)  # that may write issues there
    issues_url: str = ""  # of the forge's API; default: that of github.com or gitlab.com

    # of the role of PostgreSQL that runs what people query on the pages; default: the database
    query_database: str = field(default="", repr=False)

    def bundle_list(self) -> Path | None:
        """The file that says which bundles may run here, if `bundles` names one."""
        if self.bundles in (ANY, PACKAGED):
            return None
        return Path(self.bundles).expanduser().absolute()

    def build_folder(self) -> Path:
        """Where builds of other programs are kept."""
        return self.data / "builds"

    def driver_folder(self) -> Path:
        """Where what users added of drivers is kept."""
        return self.data / "drivers"

    def own_driver_folder(self) -> Path:
        """Where copies of the drivers that this host ran on are kept."""
        return self.data / "own-drivers"

    def program_folder(self) -> Path:
        """Where what users declared of programs is kept."""
        return self.data / "programs"

    def database_url(self) -> str:
        """The database to use: the one set, or a SQLite file in the data folder."""
        return self.database or f"sqlite:///{self.data / 'vkbench.db'}"


@cache
def settings() -> Settings:
    """The settings of this process; `settings.cache_clear()` after changing the environment."""
    return read(os.environ)


def read_variables() -> Mapping[str, str]:
    """The variables of this process that are not ours: what a forge's runner says of itself."""
    return os.environ


def read(environ: Mapping[str, str]) -> Settings:
    """Settings from variables; an unknown VKBENCH_ name or a malformed value is a UsageError."""
    _check_names(environ)
    values: dict[str, object] = {"host": socket.gethostname()}
    for item in fields(Settings):
        text = environ.get(_variable(item.name), "") or _text_of_file(item, environ)
        if text:
            values[item.name] = _parse(item.name, text, item.default)
    for name in ("data", "cache", "build_key"):
        values[name] = Path(str(values.get(name, getattr(Settings, name)))).expanduser()
    return _check_settings(Settings(**values))  # type: ignore[arg-type]


def _check_settings(settings: Settings) -> Settings:
    if settings.log_format not in (log.TEXT, log.JSON):
        raise UsageError(f"VKBENCH_LOG_FORMAT={settings.log_format!r} is neither text nor json")
    _check_webhook(settings)
    if settings.issues and not settings.issues_token:
        raise UsageError("VKBENCH_ISSUES needs VKBENCH_ISSUES_TOKEN, which may write issues there")
    return replace(settings, redis=_with_ca(settings)) if settings.redis_ca else settings


def _with_ca(settings: Settings) -> str:
    """The URL of Redis that names the file of certificates too, as redis-py reads it."""
    if not settings.redis.startswith("rediss://"):
        return settings.redis
    if not Path(settings.redis_ca).is_file():
        raise UsageError(f"VKBENCH_REDIS_CA: there is no file {settings.redis_ca}")
    joint = "&" if "?" in settings.redis else "?"
    return f"{settings.redis}{joint}ssl_ca_certs={quote(settings.redis_ca)}"


def _check_webhook(settings: Settings) -> None:
    if not settings.alert_webhook:
        return
    if not settings.alert_webhook.startswith(("https://", "http://")):
        raise UsageError("VKBENCH_ALERT_WEBHOOK is no URL of http or https")
    if not settings.alert_secret:
        raise UsageError("VKBENCH_ALERT_WEBHOOK needs VKBENCH_ALERT_SECRET, which signs it")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _text_of_file(item: Field[object], environ: Mapping[str, str]) -> str:
    """What the file of a secret setting holds, if a variable names one."""
    variable = _variable(item.name) + OF_FILE
    if item.repr or not environ.get(variable):
        return ""
    try:
        return Path(environ[variable]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{variable}: {environ[variable]} cannot be read: {reason}") from None


def _check_names(environ: Mapping[str, str]) -> None:
    known = [_variable(item.name) for item in fields(Settings)]
    known += [_variable(item.name) + OF_FILE for item in fields(Settings) if not item.repr]
    for name in environ:
        if name.startswith(PREFIX) and name not in (*known, TESTS_ONLY):
            raise UnknownName("variable", name, names.nearest(name, known))


def _parse(name: str, text: str, default: object) -> object:
    try:
        if isinstance(default, bool):
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        return type(default)(text)  # type: ignore[call-arg]
    except (KeyError, ValueError) as error:
        complaint = f"not a {type(default).__name__}"
        if isinstance(default, StrEnum):
            complaint = f"none of {', '.join(type(default))}"
        raise UsageError(f"{_variable(name)}={text!r} is {complaint}") from error
