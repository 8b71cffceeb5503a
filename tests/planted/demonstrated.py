"""The whole demonstration, made once for all processes of a test session."""

from __future__ import annotations

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vkbench_local.demo.filling import fill
from vkbench_local.demo.place import make

UNTIL = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its file, which no test may write to."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "demonstration"
    folder.mkdir(exist_ok=True)
    path = folder / "lab.db"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(path, lambda database: fill(database, UNTIL))
    return path
