"""`vkbench schedule`: made, shown, paused, run by hand and removed."""

from __future__ import annotations

import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from commands import Captured
from planted_own import CASE, write_own
from ssh_keys import new_ssh_key
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.signed import get_signed
from vkbench.programs.store import BuildStore
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database

pytestmark = pytest.mark.usefixtures("filled")


def run_schedule(capsys: Captured, *words: str, code: int = 0) -> str:
    status = cli.main(["schedule", *words])
    out, err = capsys.readouterr()
    assert status == code, err
    return out or err


def listed(capsys: Captured) -> list[dict[str, Any]]:
    return list(json.loads(run_schedule(capsys, "ls", "--json"))["rows"])


def test_a_schedule_s_life(capsys: Captured, database: Database) -> None:
    copies = ("-k", "copy", "-f", "f32", "--mode", "correctness", "--priority", "2")
    assert " 02:00 UTC" in run_schedule(capsys, "add", "nightly", "--cron", "0 2 * * *", *copies)
    (row,) = listed(capsys)
    assert (row["name"], row["state"], row["last_run"]) == ("nightly", "waiting", None)
    due = datetime.fromisoformat(row["next_due"])
    assert (due.hour, due.minute, due > datetime.now(UTC)) == (2, 0, True)
    assert row["selection"]["kernels"] == ["copy"]

    run = int(run_schedule(capsys, "fire", "nightly").split()[0])
    with database.reading() as tx:
        fired = queries.find_run(tx, str(run))
    assert (fired.label, fired.priority, fired.mode) == ("nightly", 2, "correctness")
    assert listed(capsys)[0]["last_run"] == run
    shown = run_schedule(capsys, "show", "nightly")
    selection = "kernels copy; formats f32; mode correctness; priority 2"
    assert shown.startswith(f"nightly, at 0 2 * * * (UTC): {selection}\n")
    assert "fired by hand" in shown

    run_schedule(capsys, "pause", "nightly")
    (row,) = listed(capsys)
    assert (row["state"], row["next_due"]) == ("paused", None)
    run_schedule(capsys, "resume", "nightly")
    assert listed(capsys)[0]["state"] == "waiting"
    run_schedule(capsys, "rm", "nightly")
    assert listed(capsys) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cron", "0 2 * *"), "is no cron expression"),
        (("--cron", "@daily", "-k", "copi"), "did you mean 'copy'"),
        (("--cron", "@daily", "--suite", "quik"), "did you mean 'quick'"),
        (("--cron", "@daily", "--bundle", "beef"), "unknown bundle"),
    ],
)
def test_what_would_fail_every_night_is_refused_now(
    capsys: Captured, words: tuple[str, ...], why: str
) -> None:
    assert why in run_schedule(capsys, "add", "nightly", *words, code=2)
    assert listed(capsys) == []


@pytest.mark.parametrize("name", ["", " "])
def test_one_without_a_name_is_refused(capsys: Captured, name: str) -> None:
    assert "is no name" in run_schedule(capsys, "add", name, "--cron", "@daily", code=2)


def test_an_unknown_name_is_refused(capsys: Captured) -> None:
    run_schedule(capsys, "add", "nightly", "--cron", "@daily")
    for verb in ("show", "rm", "pause", "resume", "fire"):
        assert "did you mean 'nightly'" in run_schedule(capsys, verb, "nightli", code=2)


def test_a_kernel_of_one_s_own_is_repeated(capsys: Captured, tmp_path: Path) -> None:
    """The schedule keeps its bundle, so that the file may go."""
    path = write_own(tmp_path / "own")
    words = ("--kernel-file", str(path), "--mode", "correctness")
    run_schedule(capsys, "add", "nightly", "--cron", "0 2 * * *", *words)
    assert "; own lab.rms_quant" in run_schedule(capsys, "show", "nightly")
    shutil.rmtree(path.parent)
    assert run_schedule(capsys, "fire", "nightly").split()[0].isdigit()
    (row,) = listed(capsys)
    assert row["selection"]["own"]["cases"][0] == CASE


def test_a_schedule_of_a_build_submits_jobs_of_that_build(
    capsys: Captured, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_BUILD_KEY", str(new_ssh_key(tmp_path / "ann")))
    settings.cache_clear()
    store = BuildStore(settings().build_folder())
    names = ("libggml-base.so", "libggml-vulkan.so")
    build = store.add("ggml-vulkan", dict.fromkeys(names, io.BytesIO), "b1")
    chosen = ("--build", "b1", "--case", "add/f32/b1_c1_h8_w64")
    run_schedule(capsys, "add", "builds", "--cron", "0 2 * * *", *chosen)
    assert get_signed(build.sha, FolderPlace(store.folder)).declared.build.sha == build.sha
    run = int(run_schedule(capsys, "fire", "builds").split()[0])
    with database.reading() as tx:
        columns = (schema.job.c.bundle, schema.job.c.arm_kind)
        arms = tx.execute(select(*columns).where(schema.job.c.run_id == run)).all()
    assert set(arms) == {(build.sha, "build")}
    store.remove([build])
    run_schedule(capsys, "add", "again", "--cron", "0 2 * * *", *chosen)  # the database knows it
