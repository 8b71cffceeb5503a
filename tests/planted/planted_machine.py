"""A machine whose one device is planted: its runner does what a job's case says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.settings import Settings, settings
from vkbench_db.database import Database

HERE = Path(__file__).parent


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """Settings with a planted runner and a SQLite file."""
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    monkeypatch.setenv("VKBENCH_RUNNER", "keyed_runner")
    monkeypatch.setenv("VKBENCH_HOST", "here")
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{tmp_path / 'results.db'}")
    settings.cache_clear()
    return replace(settings())


@pytest.fixture
def database(planted: Settings, template_file: Path) -> Iterator[Database]:
    """An empty database, which the settings name."""
    url = planted.database_url()
    shutil.copy(template_file, url.removeprefix("sqlite:///"))
    with Database.open(url) as opened:
        yield opened
