"""A backup as the documentation makes it holds every result, on each engine."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from databases import Cluster, Lab
from postgres_server import program
from vkbench_cli.main import main

Captured = pytest.CaptureFixture[str]

WORDS = (["results"], ["jobs"], ["query", "SELECT * FROM v_results ORDER BY job, metric"])


@pytest.fixture
def restored(
    lab: Lab, url: str, engine_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[], str]:
    """Backs the database up, restores it elsewhere, and says where."""
    backup = tmp_path / "backup"

    def sqlite() -> str:
        with sqlite3.connect(str(lab.database.engine.url.database)) as connection:
            connection.execute(f"VACUUM INTO '{backup}'")
        return f"sqlite:///{backup}"

    def postgresql() -> str:
        cluster: Cluster = request.getfixturevalue("cluster")
        there = cluster.url(cluster.create())
        dump, restore = program("pg_dump"), program("pg_restore")
        assert dump
        assert restore
        subprocess.run([dump, "--format", "custom", "-f", backup, url], check=True, timeout=60)
        subprocess.run([restore, "-d", there, backup], check=True, timeout=60)
        return there

    return sqlite if engine_name == "sqlite" else postgresql


def test_a_restored_backup_answers_alike(
    lab: Lab, url: str, restored: Callable[[], str], capsys: Captured
) -> None:
    device = lab.add_device()
    lab.submit(device, 5)
    lab.settle(device)
    lab.submit(device, 3)
    answers = []
    for place in (url, restored()):
        for words in WORDS:
            assert main([*words, "--json", "--database", place]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert "mul_mat_vec/q4_0/m5_n1_k256" in answers[0]
    lab.settle(device)  # what is recorded later is not in the backup
    assert main(["results", "--json", "--database", url]) == 0
    assert capsys.readouterr().out not in answers[1]
