"""`vkbench demo`: the detection itself finds what is planted, and no other database is touched."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from commands import read_rows
from demonstrated import UNTIL
from vkbench.errors import UsageError
from vkbench.settings import Settings
from vkbench_cli.main import main
from vkbench_db import demonstration, schema
from vkbench_db.ask.nights import last_nights
from vkbench_db.ask.run_story import run_before
from vkbench_db.ask.sql.readonly import query
from vkbench_db.database import Database, upgrade
from vkbench_local.demo import story
from vkbench_local.demo.filling import WATCHED, fill, last_midnight
from vkbench_local.demo.lab import MACHINES
from vkbench_local.demo.place import make
from vkbench_local.demo.recording import load
from vkbench_web.app import application
from vkbench_web.lab import Lab

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def lab(demonstrated: Path) -> Path:
    """The whole demonstration."""
    return demonstrated


def asked(path: Path, sql: str) -> list[tuple[object, ...]]:
    return query(f"sqlite:///{path}", sql)[1]


def night(path: Path, *, seed: int = 1) -> Path:
    """A single night."""
    make(path, lambda database: fill(database, UNTIL, nights=1, seed=seed), anew=True)
    return path


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_detection_finds_what_is_planted_and_nothing_else(lab: Path) -> None:
    found = asked(lab, "SELECT direction, cause, kernel, state, device_name FROM v_regressions")
    kinds = {tuple(row[:4]) for row in found}
    assert kinds == {
        ("slower", "kernel", "rms_norm", "verified"),
        ("faster", "kernel", "rms_norm", "closed"),  # it has stayed for 14 days
        ("slower", "kernel", "mul_mat_vec", "open"),
        ("slower", "environment", "flash_attn", "open"),
        ("slower", "environment", "softmax", "open"),
        ("wrong", "kernel", "get_rows", "open"),
        ("faster", "kernel", "mul_mat", "open"),
        ("slower", "build", "mul_mat_vec", "open"),
        ("slower", "host", "copy", "open"),
        ("slower", "host", "swiglu", "open"),
    }
    [(regressions,)] = asked(lab, "SELECT count(DISTINCT regression) FROM v_regressions")
    assert regressions == 8
    by_build = "SELECT DISTINCT program, before_build, after_build FROM v_regressions"
    assert asked(lab, f"{by_build} WHERE cause = 'build'") == [
        ("simulated-library", "v1.1", "v1.2")
    ]
    told = "SELECT regression_id FROM regression_event WHERE note LIKE 'planted for the %'"
    assert {number for (number,) in asked(lab, told)} == set(range(1, 9))
    by_driver = {row[4] for row in found if row[1] == "environment"}
    assert by_driver == {"Simulated desktop GPU, 24 GB"}
    by_host = {row[4] for row in found if row[1] == "host"}
    assert by_host == {"Simulated compact GPU, 12 GB"}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_changes_were_measured_again_before_anyone_was_told(lab: Path) -> None:
    sql = """
        SELECT c.state, count(DISTINCT c.id), count(DISTINCT f.change_point_id) FROM change_point c
        LEFT JOIN confirmation f ON f.change_point_id = c.id
        WHERE c.method <> 'verdict' GROUP BY c.state
    """
    states = {str(state): (changes, measured) for state, changes, measured in asked(lab, sql)}
    assert set(states) == {"ambiguous", "confirmed", "dismissed"}
    assert states["confirmed"][1] == states["confirmed"][0]
    silent = """
        SELECT c.id FROM change_point c WHERE c.method <> 'verdict'
        AND c.id NOT IN (SELECT change_point_id FROM confirmation)
        AND c.id NOT IN (SELECT change_point_id FROM change_point_event
                         WHERE note LIKE '%not measured again%')
    """
    assert asked(lab, silent) == []
    assert len(asked(lab, "SELECT 1 FROM change_point WHERE state = 'confirmed'")) > 50


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_last_two_nights_did_the_same_and_runs_follow_their_like(lab: Path) -> None:
    with Database.open(f"sqlite:///{lab}") as database, database.reading() as tx:
        nights = last_nights(tx, UNTIL.timestamp())
        assert nights
        last, before = (night.count() for night in nights)
        assert 100 < last == pytest.approx(before, rel=0.2)  # some are measured again
        labels = dict(tx.execute(select(schema.run.c.id, schema.run.c.label)).all())
        followed = {run: run_before(tx, run) for run in sorted(labels)[-12:]}
    names = [(labels[run], before.label) for run, before in followed.items() if before]
    assert len(names) > 9
    assert all(after.rpartition(" ")[0] == before.rpartition(" ")[0] for after, before in names)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_results_are_believable(lab: Path) -> None:
    [(devices, kernels, formats)] = asked(
        lab,
        "SELECT count(DISTINCT device), count(DISTINCT kernel), count(DISTINCT format)"
        " FROM v_results",
    )
    assert (devices, kernels) == (len(MACHINES), len({case.kernel for case in load().cases}) + 5)
    assert isinstance(formats, int)
    assert formats >= 27
    shares = asked(lab, "SELECT max(roof_fraction), avg(roof_fraction) FROM v_results")
    [(most, mean)] = [(float(str(most)), float(str(mean))) for most, mean in shares]
    assert most < 1.1
    assert 0.3 < mean < 0.9
    assert asked(lab, "SELECT DISTINCT flag FROM v_results WHERE flag <> ''") == [("device off",)]
    [(states,)] = asked(lab, "SELECT group_concat(DISTINCT state) FROM v_results")
    assert set(str(states).split(",")) == {"passed", "wrong", "skipped"}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_commands_say_that_it_is_a_demonstration(lab: Path, capsys: Captured) -> None:
    assert main(["regressions", "ls", "--database", str(lab)]) == 0
    shown = capsys.readouterr()
    assert "mul_mat_vec" in shown.out
    assert shown.err.splitlines()[0] == demonstration.NOTE
    with Database.open(f"sqlite:///{lab}") as database, database.reading() as tx:
        assert demonstration.is_demonstration(tx)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_builds_are_compared_by_their_pairs(lab: Path, capsys: Captured) -> None:
    changed = read_rows(capsys, "compare", "build:v1.1", "build:v1.2", "--database", str(lab))
    assert {row["variant"] for row in changed} == {"simulated-library"}
    assert {row["reason"] for row in changed if row["change"] == "slower"} == {
        "8 pairs of both, timed in turns"
    }


def test_a_seed_makes_the_same_results_each_time(tmp_path: Path) -> None:
    sql = "SELECT device, case_name, metric, seconds, state FROM v_results ORDER BY job, metric"
    path = tmp_path / "lab.db"
    one, two, other = (asked(night(path, seed=seed), sql) for seed in (1, 1, 2))
    assert one == two != other
    assert len(one) > 1000


def test_a_database_with_other_results_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    upgrade(f"sqlite:///{path}")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is no demonstration"):
        make(path, lambda database: fill(database, UNTIL, nights=1), anew=True)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["mine.db"]


@pytest.mark.parametrize("content", [b"", b"hello"])
def test_another_file_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is no demonstration"):
        make(path, never, anew=True)
    assert path.read_bytes() == content


def test_one_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    assert make(path, mark)
    before = path.read_bytes()
    assert not make(path, never)
    assert path.read_bytes() == before


def test_what_is_stopped_half_way_leaves_no_file(tmp_path: Path) -> None:
    def stop(database: Database) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "lab.db", stop)
    assert list(tmp_path.iterdir()) == []


def mark(database: Database) -> None:
    with database.transaction() as tx:
        demonstration.mark(tx)


def never(database: Database) -> None:
    raise AssertionError("it was filled again")


def test_postgresql_is_refused(capsys: Captured) -> None:
    assert main(["demo", "--no-serve", "--database", "postgresql://host/results"]) == 2
    assert "a demonstration is a SQLite file" in capsys.readouterr().err


def test_what_is_watched_and_planted_is_recorded() -> None:
    names = {case.case for case in load().cases}
    assert set(WATCHED) <= names
    machines = {machine.name: machine for machine in MACHINES}
    by_name = {case: [one for one in load().cases if one.case == case] for case in WATCHED}
    assert all(machines[""].runs(cases) for cases in by_name.values())
    nights = {build.night for build in story.BUILDS} | {story.HOST_NIGHT}
    drivers = {night for machine in MACHINES for night in machine.versions}
    assert all(each.since in nights | drivers for each in story.PLANTED)


@pytest.mark.parametrize(
    ("now", "ended"), [("2026-11-22 02:00", "2026-11-22"), ("2026-11-22 03:30", "2026-11-23")]
)
def test_the_last_night_is_over(now: str, ended: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp()
    assert last_midnight(moment).strftime("%Y-%m-%d") == ended


def test_pages_say_that_it_is_a_demonstration(tmp_path: Path) -> None:
    for name, fill_in in (("demo.db", mark), ("empty.db", lambda database: None)):
        make(tmp_path / name, fill_in)
        ours = Settings(data=tmp_path, host="here", database=f"sqlite:///{tmp_path / name}")
        with TestClient(application(Lab(ours))) as client:
            is_said = "A demonstration" in client.get("/fleet").text
        assert is_said == (fill_in is mark)
