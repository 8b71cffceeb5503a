"""A short form of `make chaos`: everything is broken while jobs run, and none is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from chaos import FAULTS, run
from postgres_server import program

Need = Callable[[str, str], NoReturn]
JOBS, STRIKES = 120, 8
SURELY = ("fail_over", *["change_keys"] * 3)  # three steps change the keys


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_is_lost_whatever_breaks(need: Need, tmp_path: Path) -> None:
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    if not program("initdb"):
        need("postgres", "initdb is not installed")
    said = run(tmp_path, jobs=JOBS, faults=STRIKES, seed=5, surely=SURELY)
    print(said)
    assert said.startswith(f"{JOBS} jobs: ")


def test_every_process_and_server_is_broken() -> None:
    assert {"kill_runner", "kill_worker", "kill_scheduler", "kill_redis", "kill_postgres"} < set(
        FAULTS
    )
    assert set(SURELY) < set(FAULTS)
    assert len(FAULTS) >= 21
