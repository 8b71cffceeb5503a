"""Files of other programs' timings that name a build join the series of its program."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from commands import Captured, read_rows, run_command
from databases import Lab
from planted_build_runs import PROGRAM, add_build, run_build
from planted_runs import CASES, DEVICE, Past
from vkbench.errors import UsageError
from vkbench.settings import Settings
from vkbench_cli import main as cli
from vkbench_cli.builds import find_for_fleet
from vkbench_db.ask import series
from vkbench_db.ask.builds import builds, builds_changes
from vkbench_db.work.builds import find_build_sha
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.turns import next_turn
from vkbench_web.app import application
from vkbench_web.lab import Lab as WebLab

BEGAN = 1_780_000_000.0
DAY = 86_400.0


def write_google(path: Path, number: int, seconds: float) -> Path:
    """A file of Google Benchmark that timed the first case on a day."""
    at = datetime.fromtimestamp(BEGAN + number * DAY, UTC).isoformat()
    test = {"name": f"BM_{CASES[0]}", "run_type": "iteration", "iterations": 9, "time_unit": "s"}
    times = {"real_time": seconds, "cpu_time": seconds}
    path.write_text(json.dumps({"context": {"date": at}, "benchmarks": [test | times]}))
    return path


def import_days(
    capsys: Captured,
    folder: Path,
    build: str,
    days: range,
    seconds: float,
    program: str = "mybench",
) -> str:
    """Import a file a day; return what stderr said of the first."""
    told = []
    for day in days:
        file = write_google(folder / f"{day}.json", day, seconds * (1 + day % 3 / 1000))
        words = ("--google-benchmark", str(file), "--device", DEVICE.key, "--build", build)
        told.append(run_command(capsys, "import", *words, "--program", program)[1])
    return " ".join(told[0].split())


def test_builds_of_names_alone_are_suspected_and_never_confirmed(
    past: Past, capsys: Captured, tmp_path: Path
) -> None:
    told = import_days(capsys, tmp_path, "v1", range(9), 1e-3)
    assert "build v1 of mybench is known by its name alone" in told
    import_days(capsys, tmp_path, "v2", range(9, 15), 2e-3)
    assert "--program" in run_command(capsys, "import", "--help")[0]
    [row] = read_rows(capsys, "regressions", "suspected")
    assert (row["state"], row["variant"]) == ("suspected", "mybench")
    assert (
        "imported from another program's file: only pairs of both builds confirm it"
        in row["evidence"]
    )
    assert read_rows(capsys, "regressions", "ls", "--all", "--program", "mybench") == []
    [latest] = read_rows(capsys, "results", "--build", "v2")
    assert "told by a file of Google Benchmark, and not judged" in latest["remark"]
    with past.database.reading() as tx:
        [old, new] = builds(tx, "mybench")
        assert [change.before_bundle for change in builds_changes(tx, [new.sha])] == [old.sha]
        [device] = {change.device for change in builds_changes(tx, [new.sha])}
        turn = next_turn(tx, {1}, BEGAN + 30 * DAY)
        assert (device, turn.measured) == (DEVICE.key, [])
        assert [each.conclusion.state for each in turn.decisions] == [ChangeState.AMBIGUOUS]
        assert "files of its builds are not known" in turn.decisions[0].conclusion.note
    with pytest.raises(UsageError, match="known from imported results alone"):
        find_for_fleet(past.database, "v2")
    pages = TestClient(application(WebLab(Settings(database=str(past.database.engine.url)))))
    [row] = pages.get("/api/builds/v2").json()["devices"]
    assert (row["results"], row["imported"]) == (6, 6)
    page = pages.get("/builds/v2").text
    assert "known by its name alone, from imported results" in page
    assert "vkbench run --build" not in page


def test_a_build_that_is_known_joins_the_series_of_its_runs(
    past: Past, capsys: Captured, tmp_path: Path
) -> None:
    lab = Lab(past.database, now=BEGAN)
    build = add_build(lab, "b8121")
    run_build(lab, DEVICE.key, build, cases=(CASES[0],))
    file = write_google(tmp_path / "one.json", 1, 1e-3)
    words = ("--google-benchmark", str(file), "--device", DEVICE.key, "--build", "b8121")
    assert "1 job new" in run_command(capsys, "import", *words)[0]
    assert "1 known" in run_command(capsys, "import", *words)[0]
    assert "no change is suspected" in run_command(capsys, "regressions", "suspected")[1]
    with past.database.reading() as tx:
        chosen = series.SeriesFilter(texts={"variant": [PROGRAM]})
        [row] = series.page(tx, chosen)
        assert (row.results, row.side, row.track) == (2, "ours", "main")
        assert {point.build for point in series.points(tx, row.series, 9)} == {"b8121"}


def test_a_name_means_the_build_whose_files_came_later(
    past: Past, capsys: Captured, tmp_path: Path
) -> None:
    told = import_days(capsys, tmp_path, "b1", range(1), 1e-3, PROGRAM)
    assert "known by its name alone" in told
    whole = add_build(Lab(past.database, now=BEGAN + 9 * DAY), "b1")
    assert find_for_fleet(past.database, "b1", PROGRAM) == replace(whole, added_at=0.0)
    assert "known by its name alone" not in import_days(
        capsys, tmp_path, "b1", range(1, 2), 1e-3, PROGRAM
    )
    rows = read_rows(capsys, "results", "--build", "b1", "--history")
    assert len({row["job"] for row in rows}) == 2  # of both hashes
    with past.database.reading() as tx:
        alone, known = builds(tx, PROGRAM)
        assert (alone.is_name_alone, known.sha) == (True, whole.sha)
        assert find_build_sha(tx, alone.sha[:12]) == alone.sha


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--ggml", "a", "--build", "b1"], "no build is called 'b1': give --program"),
        (["--ggml", "a", "--program", "p"], "--program is of --build"),
        (["--nvbench", "a", "--build", "b", "--peer", "p"], "give --build or --peer"),
        (["a.jsonl", "--build", "b"], "an export names its builds"),
        (["--ggml", "a", "--build", "b", "--program", "portable"], "name of a code path"),
        (["--ggml", "a", "--build", "b", "--program", "torch"], "name of a peer"),
        (["--ggml", "a", "--build", "b\x07", "--program", "p"], "printable characters"),
    ],
)
def test_a_build_that_cannot_be_named(
    past: Past, capsys: Captured, words: list[str], complaint: str
) -> None:
    assert cli.main(["import", *words]) == 2
    assert complaint in capsys.readouterr().err
