"""A lab a test: its own Redis, a database on the session's PostgreSQL server, real processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "planted"))

from cluster import Lab, RedisServer, free_port, until

from vkbench_db.database import upgrade

MakeLab = Callable[..., Lab]


def _binary(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ["PATH"], *map(str, places)])
    return shutil.which(name, path=path)


@pytest.fixture(scope="session")
def postgres(
    need: Callable[[str, str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """URL of the session's PostgreSQL server, without a database name."""
    initdb, server = _binary("initdb"), _binary("postgres")
    if not initdb or not server:
        need("postgres", "initdb and postgres are not installed")
    folder = tmp_path_factory.mktemp("postgres")
    # PostgreSQL refuses to run as root.
    user = "postgres" if os.getuid() == 0 else None
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    if user:
        shutil.chown(folder, user)
    options = ["--username=vk", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
    cluster = folder / "cluster"
    subprocess.run(
        [initdb, "-D", str(cluster), *options], check=True, user=user, capture_output=True
    )
    port = free_port()
    flags = ["-p", str(port), "-k", "", "-F", "-c", "listen_addresses=127.0.0.1"]
    with (tmp_path_factory.mktemp("log") / "postgres.log").open("wb") as log:
        process = subprocess.Popen(
            [server, "-D", str(cluster), *flags], user=user, stdout=log, stderr=log
        )
    url = f"postgresql://vk@127.0.0.1:{port}"
    try:
        until(lambda: _psql(url, "SELECT 1"), "PostgreSQL does not answer", 30)
        _psql(url, "CREATE DATABASE template")
        upgrade(f"{url}/template")
        yield url
    finally:
        process.kill()
        process.wait()


def _psql(url: str, statement: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(f"{url}/postgres", autocommit=True, connect_timeout=2) as connection:
            connection.execute(statement)  # type: ignore[arg-type]
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def make_lab(
    need: Callable[[str, str], NoReturn],
    postgres: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[MakeLab]:
    """Makes labs; `make_lab(appendonly=False)` says how Redis is to be."""
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    labs: list[Lab] = []

    def make(*, appendonly: bool = True, maxmemory: str = "0", **changes: object) -> Lab:
        name = f"lab{len(labs)}_{os.path.basename(tmp_path)}".lower().replace("-", "_")[:60]
        _psql(postgres, f'DROP DATABASE IF EXISTS "{name}"')
        _psql(postgres, f'CREATE DATABASE "{name}" TEMPLATE template')
        redis = RedisServer(tmp_path / "redis", appendonly=appendonly, maxmemory=maxmemory)
        redis.start()
        made = Lab(folder=tmp_path, database_url=f"{postgres}/{name}", redis=redis, changes=changes)
        labs.append(made)
        return made

    yield make
    for made in labs:
        made.close()
        made.redis.close()


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab whose Redis keeps what it is told."""
    return make_lab()
