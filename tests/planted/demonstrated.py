"""The whole demonstration, made once for all processes of a test session."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from shared_folder import shared_folder
from vkbench_local.demo.filling import fill
from vkbench_local.demo.place import make

UNTIL = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its file, which no test may write to."""
    with shared_folder(tmp_path_factory, "demonstration") as folder:
        path = folder / "lab.db"
        make(path, lambda database: fill(database, UNTIL))
    return path
