"""A machine on which nothing was recorded yet: what commands say, and that asking makes nothing.

A named database that does not exist is an error instead: the name may be mistyped.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Captured, read_rows, run_command
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_db.database import Database

LISTS = (
    "results",
    "results -k copy -f q4_0 -d NVIDIA --suite quick",
    "results --history --state wrong",
    "jobs",
    "jobs --state queued -d NVIDIA",
    "regressions ls",
    "regressions ls -d NVIDIA --fail-on open",
    "regressions suspected",
    "noise",
    "noise --refresh -k copy",
    "schedule ls",
    "baseline ls",
    "bisect ls",
    "calibrate --show",
    "calibrate --show -d NVIDIA",
)
NAMED = (
    "jobs last",
    "results --run last",
    "compare 1 last --fail-on regression",
    "regressions show 3",
    "schedule show nightly",
    "bisect show 1",
    "report run last",
    "export last -o run.jsonl",
)
ACTING = (
    "submit",
    "cancel last",
    "pause NVIDIA",
    "schedule add nightly --cron '0_2_*_*_*'",
    "regressions ack 1",
    "baseline set good --run last",
    "bisect stop 1",
)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where all that a command makes would lie."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("words", LISTS)
def test_a_list_says_what_makes_the_first_row(words: str, folder: Path, capsys: Captured) -> None:
    out, err = run_command(capsys, *words.split())
    assert out == ""
    assert "yet: " in err
    assert "`vkbench " in err
    assert err.count("\n") == 1
    assert json.loads(run_command(capsys, *words.split(), "--json")[0]) == {
        "schema_version": 1,
        "rows": [],
    }
    [heading] = run_command(capsys, *words.split(), "--csv")[0].splitlines()
    assert heading.count(",") >= 2
    assert not made(folder)


@pytest.mark.parametrize("words", NAMED)
def test_what_is_named_is_unknown_and_why(words: str, folder: Path, capsys: Captured) -> None:
    out, err = run_command(capsys, *words.split(), code=2)
    assert out == ""
    assert "unknown " in err
    assert "there are no results yet: `vkbench run`" in err
    assert str(settings().data) in err
    assert not made(folder)


@pytest.mark.parametrize("words", ACTING)
def test_who_wants_to_change_something_is_told_what_makes_a_database(
    words: str, folder: Path, capsys: Captured
) -> None:
    err = run_command(
        capsys, *([word.replace("_", " ").strip("'") for word in words.split()]), code=8
    )[1]
    assert "there is no database yet" in err
    assert "`vkbench db upgrade`" in err
    assert not made(folder)


def test_a_query_has_its_columns_and_counts_nothing(folder: Path, capsys: Captured) -> None:
    out, err = run_command(
        capsys, "query", "SELECT kernel, count(*) AS n FROM v_latest GROUP BY 1", "--csv"
    )
    assert out == "kernel,n\n"
    assert "there are no results yet: `vkbench run`" in err
    assert read_rows(capsys, "query", "SELECT count(*) AS n FROM v_series") == [{"n": 0}]
    assert cli.main(["query", "DROP TABLE job"]) == 2
    assert cli.main(["query", "SELECT nonsense FROM job"]) == 2
    assert not made(folder)


@pytest.mark.parametrize("words", [*LISTS, *NAMED, "devices", "query 'SELECT_1'"])
def test_a_named_database_that_is_not_there_is_an_error(
    words: str, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [word.replace("'", "").replace("SELECT_1", "SELECT 1") for word in words.split()]
    out, err = run_command(capsys, *given, "--database", "nonesuch.db", code=8)
    assert (out, str(folder / "nonesuch.db") in err) == ("", True)
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{folder}/slip.db")
    settings.cache_clear()
    assert f"{folder}/slip.db" in run_command(capsys, *given, code=8)[1]
    assert not made(folder)


@pytest.mark.parametrize("words", ["devices", "results", "schedule ls"])
def test_a_server_that_does_not_answer_is_an_error(words: str, capsys: Captured) -> None:
    assert (
        "127.0.0.1"
        in run_command(
            capsys, *words.split(), "--database", "postgresql://u@127.0.0.1:1/x", code=8
        )[1]
    )


def test_something_else_in_the_database_s_place_is_an_error(capsys: Captured) -> None:
    (settings().data / "vkbench.db").mkdir(parents=True)
    assert "vkbench.db" in run_command(capsys, "results", code=8)[1]


def test_what_is_named_in_a_database_s_place_is_told_with_its_remedy(
    folder: Path, capsys: Captured
) -> None:
    (folder / "a folder").mkdir()
    (folder / "empty file").touch()
    assert (
        f"{folder}/a folder is a folder, no database"
        in run_command(capsys, "results", "--database", "a folder", code=8)[1]
    )
    assert cli.main(["results", "--database", "empty file"]) == 8
    remedy = f"run `vkbench db upgrade --database '{folder}/empty file'`"
    assert remedy in capsys.readouterr().err


@pytest.mark.parametrize("words", ["run --case copy/f32/b1_c1_h1_w5", "calibrate"])
def test_a_file_in_the_folder_s_place_is_an_error(
    words: str, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "notes.txt").write_text("mine")
    monkeypatch.setenv("VKBENCH_DATA", str(folder / "notes.txt"))
    settings.cache_clear()
    line = run_command(capsys, *words.split(), code=8)[1]
    assert line == (
        f"vkbench: the database {folder}/notes.txt/vkbench.db cannot be used: "
        f"File exists: {folder}/notes.txt\n"
    )


def test_a_fleet_s_database_without_devices_says_who_announces_them(
    folder: Path, capsys: Captured
) -> None:
    Database.open(f"sqlite:///{folder}/fleet.db", create=True).close()
    out, err = run_command(capsys, "devices", "--database", "fleet.db")
    assert out == ""
    assert "`vkbench worker`" in err
