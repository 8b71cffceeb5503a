"""Redis and PostgreSQL of one's own, for scripts that measure or break a whole lab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster import Lab, RedisServer
from postgres_server import PostgresServer


@contextmanager
def own_servers(folder: Path) -> Iterator[tuple[PostgresServer, RedisServer]]:
    """Both servers, running, with what they keep below a folder."""
    with ExitStack() as stack:
        postgres = PostgresServer()
        stack.callback(postgres.close)
        postgres.start()
        postgres.make_template()
        redis = RedisServer(folder / "redis")
        stack.callback(redis.close)
        redis.start()
        yield postgres, redis


@contextmanager
def own_lab(folder: Path, runner: str = "planted_runner") -> Iterator[Lab]:
    """A lab on servers of its own."""
    with own_servers(folder) as (postgres, redis), ExitStack() as stack:
        url = postgres.make_database("lab")
        lab = Lab(folder=folder, database_url=url, redis=redis, changes={"runner": runner})
        stack.callback(lab.close)
        yield lab
