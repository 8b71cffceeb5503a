"""A lab a test: its own Redis, a database on the session's PostgreSQL server, real processes."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import pytest

from cluster import Lab, RedisServer
from postgres_server import PostgresServer, program

Need = Callable[[str, str], NoReturn]
MakeLab = Callable[..., Lab]

LAVAPIPE = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")

_numbers = count()


@pytest.fixture(scope="session")
def postgres(need: Need) -> Iterator[PostgresServer]:
    """The session's PostgreSQL server."""
    if not program("initdb"):
        need("postgres", "initdb is not installed")
    server = PostgresServer()
    try:
        server.start()
        server.make_template()
        yield server
    finally:
        server.close()


@pytest.fixture
def make_lab(
    need: Need, postgres: PostgresServer, session_cache: Path, tmp_path: Path
) -> Iterator[MakeLab]:
    """Makes labs; `make_lab(appendonly=False)` says how Redis is to be."""
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    labs = ExitStack()

    def make(
        *,
        appendonly: bool = True,
        maxmemory: str = "0",
        login: tuple[str, str] | None = None,
        options: Mapping[str, str] = MappingProxyType({}),
        **changes: object,
    ) -> Lab:
        url = postgres.make_database(f"lab_{next(_numbers)}")
        redis = RedisServer(
            tmp_path / "redis",
            appendonly=appendonly,
            maxmemory=maxmemory,
            login=login,
            options=options,
        )
        labs.callback(redis.close)
        redis.start()
        made = Lab(folder=tmp_path, database_url=url, redis=redis, changes=changes)
        labs.callback(made.close)
        made.settings.cache.mkdir(exist_ok=True)
        (made.settings.cache / "drivers").symlink_to(session_cache / "drivers")
        return made

    with labs:
        yield make


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab whose Redis keeps what it is told."""
    return make_lab()


@pytest.fixture
def lavapipe(need: Need, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find this driver alone."""
    if not LAVAPIPE.exists():
        need("gpu", f"there is no {LAVAPIPE}")
    monkeypatch.setenv("VK_DRIVER_FILES", str(LAVAPIPE))
