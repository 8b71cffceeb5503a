"""What imported runs have left is shown as another database's, and no command touches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Captured, read_rows, run_command
from vkbench.job import Mode, PlannedJob
from vkbench.settings import settings
from vkbench_db.database import Database
from vkbench_db.work import store

COPY = "copy/f32/n4096"


@pytest.fixture(params=["there", "here"])  # machines have the same name by chance: "vm"
def there(
    filled: Database,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> tuple[str, str]:
    """Another machine's database into which a run with two jobs left was imported."""
    with filled.transaction() as tx:
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=1.0).id
        planned = PlannedJob(device="252e5e39f6aa", case=COPY, mode=Mode.CORRECTNESS)
        store.add_jobs(tx, run, [planned] * 2)
    file, database = tmp_path / "run.jsonl", str(tmp_path / "there.db")
    run_command(capsys, "export", str(run), "-o", str(file))
    monkeypatch.setenv("VKBENCH_HOST", request.param)
    settings.cache_clear()
    run_command(capsys, "import", str(file), "--database", database)
    return "--database", database


def test_jobs_and_devices_say_that_it_is_elsewhere(
    capsys: Captured, there: tuple[str, str]
) -> None:
    [run] = read_rows(capsys, "jobs", *there)
    assert (run["state"], run["queued"], run["elsewhere"]) == ("imported", None, 2)
    assert [job["state"] for job in read_rows(capsys, "jobs", "1", *there)] == ["elsewhere"] * 2
    assert len(read_rows(capsys, "jobs", "--state", "elsewhere", *there)) == 2
    [device] = read_rows(capsys, "devices", *there)
    assert (device["state"], device["queued"], device["elsewhere"]) == ("elsewhere", 0, 2)
    assert "elsewhere" in run_command(capsys, "jobs", *there)[0]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ("run", "--resume", "1"),
            "run 1 was imported: continue it on the host of its own database",
        ),
        (("cancel", "1"), "run 1 was imported: cancel it on the host of its own database"),
        (
            ("submit", "-k", "copy"),
            "no worker here has served Planted 9000 (252e5e39f6aa): known from an import alone",
        ),
        (("submit", "-k", "copy", "-d", "planted"), "no worker here has served Planted 9000"),
    ],
)
def test_nothing_of_it_can_be_run_here(
    capsys: Captured, there: tuple[str, str], words: tuple[str, ...], hint: str
) -> None:
    out, err = run_command(capsys, *words, *there, code=7)
    assert (out, err.count("\n")) == ("", 1)
    assert hint in err
    assert [job["state"] for job in read_rows(capsys, "jobs", "1", *there)] == ["elsewhere"] * 2


def test_a_schedule_leaves_it_alone(capsys: Captured, there: tuple[str, str]) -> None:
    run_command(capsys, "schedule", "add", "nightly", "--cron", "@daily", "-k", "copy", *there)
    _, err = run_command(capsys, "schedule", "fire", "nightly", *there, code=7)
    assert "known from an import alone" in err
