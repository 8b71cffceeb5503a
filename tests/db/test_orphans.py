"""A killed test run leaves no PostgreSQL server behind for longer than until the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from cluster import until
from postgres_server import PostgresServer, end_orphans, program

pytestmark = pytest.mark.slow

STARTING = """
import time
from postgres_server import PostgresServer
server = PostgresServer()
server.start()
print((server.folder / "data" / "postmaster.pid").read_text().split()[0], server.folder, flush=True)
time.sleep(60)
"""


@dataclass(frozen=True)
class Orphan:
    """A server whose owner was killed."""

    process: Path  # its entry among the processes
    folder: Path

    def await_end(self) -> None:
        """Wait until it is gone, and its folder."""
        until(lambda: not self.process.exists(), "the server still runs")
        until(lambda: not self.folder.exists(), "its folder is still there")


@pytest.fixture
def orphan(need: Callable[[str, str], NoReturn]) -> Orphan:
    """A PostgreSQL server whose test process is gone; a test that starts a cluster may end it."""
    if not program("initdb"):
        need("postgres", "initdb is not installed")
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", STARTING], stdout=subprocess.PIPE, text=True, env=environ
    ) as owner:
        assert owner.stdout
        number, folder = owner.stdout.readline().split()
        process = Path("/proc", number)
        assert process.exists()
        owner.send_signal(signal.SIGKILL)
    return Orphan(process, Path(folder))


def test_the_next_run_ends_what_a_killed_one_left(orphan: Orphan) -> None:
    ours = PostgresServer()  # which looks for orphans
    try:
        orphan.await_end()
        ours.start()
        end_orphans()
        assert ours.ask("SELECT 1") == 1
    finally:
        ours.close()
    assert not ours.folder.exists()


def test_a_folder_whose_server_ended_is_removed(orphan: Orphan) -> None:
    with suppress(ProcessLookupError):
        os.kill(int(orphan.process.name), signal.SIGKILL)
    end_orphans()
    orphan.await_end()
