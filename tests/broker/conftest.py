"""A lab a test: its own Redis, a database on the session's PostgreSQL server, real processes."""

import os
import shutil
import subprocess
import sys
import tomllib
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

ROOT = Path(__file__).parents[2]
CLIENTS = ("celery", "kombu", "redis")  # which only work together in some versions
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
        url = postgres.make_database(name := f"lab_{next(_numbers)}")
        labs.callback(postgres.drop_database, name)
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


@pytest.fixture(scope="session")
def oldest_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the oldest clients of Redis that pyproject.toml admits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    worker = project["optional-dependencies"]["worker"]
    admitted = [item for item in worker if item.startswith(CLIENTS)]
    oldest = [item.partition(",")[0].replace(">=", "==") for item in admitted]
    folder = tmp_path_factory.mktemp("oldest")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(folder), *oldest], check=True)
    asked = "import celery, kombu, redis; print(*(m.__version__ for m in (celery, kombu, redis)))"
    environ = os.environ | {"PYTHONPATH": str(folder)}
    used = subprocess.check_output([sys.executable, "-c", asked], env=environ, text=True)
    pins = [f"{name}=={version}" for name, version in zip(CLIENTS, used.split(), strict=True)]
    # 5.7 is 5.7.0
    assert all(pin.startswith(item) for pin, item in zip(pins, oldest, strict=True)), pins
    return folder


@pytest.fixture(params=["installed", "oldest"])
def each_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers and workers run by the clients of Redis that are installed, and by the oldest."""
    if request.param == "oldest":
        folder = request.getfixturevalue("oldest_clients")
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
        monkeypatch.setenv("PYTHONPATH", path)


@pytest.fixture
def lavapipe(need: Need, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find this driver alone."""
    if not LAVAPIPE.exists():
        need("gpu", f"there is no {LAVAPIPE}")
    monkeypatch.setenv("VK_DRIVER_FILES", str(LAVAPIPE))
