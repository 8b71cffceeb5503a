"""What pages need that are followed: a machine with a device, servers, a lab with results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from cluster import RedisServer
from demonstrated import demonstrated
from postgres_server import PostgresServer
from vkbench.errors import VkbenchError
from vkbench_worker.owner.probe import local_devices

__all__ = ["demonstrated"]

Need = Callable[[str, str], NoReturn]


@pytest.fixture
def machine(need: Need) -> None:
    """This machine has a Vulkan device."""
    try:
        local_devices()
    except VkbenchError as error:
        need("gpu", str(error))


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of our own."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.close()


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of our own, with an empty database `vkbench`."""
    server = PostgresServer()
    server.start()
    server.execute("CREATE DATABASE vkbench")
    yield server
    server.close()
