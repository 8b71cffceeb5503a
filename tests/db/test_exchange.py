"""Runs travel as text: the same on the other side, any number of times, or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from databases import Lab
from exported import sealed
from vkbench.calibration import SUITE
from vkbench.job import Arm, JobState, Mode, Outcome, Pair
from vkbench.run import RunWords
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.ask.results import EVERY, ResultFilter, ResultRow, results
from vkbench_db.database import Database, upgrade
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer import transcript
from vkbench_db.transfer.exchange import Imported, export_run, import_lines, lines_of
from vkbench_db.transfer.intake import import_records
from vkbench_db.work import store
from vkbench_detection.series.calibrations import LAUNCH, settle

A_PAIR = Pair(old=Arm(name="0a" * 32), metric="cold")
LATER = 1_800_000_000.0


def export(database: Database, run: int) -> list[str]:
    with database.reading() as tx:
        return list(export_run(tx, run))


def take(database: Database, lines: list[str]) -> Imported:
    with database.transaction() as tx:
        return import_lines(tx, lines, LATER)


def rows(database: Database) -> dict[str, int]:
    tables = schema.TABLES.sorted_tables
    with database.reading() as tx:
        return {
            t.name: tx.execute(select(func.count()).select_from(t)).scalar_one() for t in tables
        }


@pytest.fixture
def lived(lab: Lab) -> tuple[Lab, int]:
    """A run in which everything happened, on two devices; and its number."""
    first, second = lab.add_device(), lab.add_device("NVIDIA H200", "beta")
    with lab.database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.BOTH,
            selection={"suite": "quick", "n": [1, 2]},
            now=lab.now,
            words=RunWords(user="ann", label="tuning ü", tags={"pr": "7"}, idempotency_key="once"),
        ).id
        store.add_jobs(tx, run, [lab.planned(first, n) for n in range(1, 7)])
        store.add_jobs(tx, run, [lab.planned(second, 9, mode=Mode.CORRECTNESS)])
    jobs = lab.pick(first, 5)
    outcomes = (Outcome.PASSED, Outcome.WRONG, Outcome.SKIPPED, Outcome.CRASHED)
    lab.record(*(lab.answer(job, end) for job, end in zip(jobs, outcomes, strict=False)))
    lab.now += 7.25
    again = next(job for job in lab.pick(first) if job.id == jobs[3].id)
    lab.record(lab.answer(again, Outcome.TIMED_OUT))
    return lab, run


def test_a_round_trip_is_equal(lived: tuple[Lab, int], elsewhere: Database) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    assert all(line.endswith("\n") and "\n" not in line[:-1] for line in lines)
    assert take(elsewhere, lines).new == 7
    assert export(elsewhere, 1) == lines
    with lab.database.reading() as here, elsewhere.reading() as there:
        for chosen in (ResultFilter(), EVERY):
            ours, theirs = results(here, chosen), results(there, chosen)
            assert [_anonymous(row) for row in theirs] == [_anonymous(row) for row in ours]
        assert queries.find_run(there, "last").imported
        assert queries.find_run(there, "tuning ü").tags == {"pr": "7"}


def test_a_pair_travels_with_its_bundles(lab: Lab, elsewhere: Database) -> None:
    device = lab.add_device()
    kept = {"mode": Mode.PAIRED, "bundle": "0b" * 32}
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PAIRED, selection={}, now=lab.now, track="").id
        store.add_jobs(tx, run, [lab.planned(device, 1, **kept, pair=A_PAIR)])
    [job] = lab.pick(device)
    lab.record(replace(lab.answer(job), bundle="0b" * 32))
    take(elsewhere, export(lab.database, run))
    with elsewhere.reading() as tx:
        assert tx.execute(select(schema.attempt.c.bundle)).scalar_one() == "0b" * 32
        assert tx.execute(select(schema.run.c.track)).scalar_one() == ""
        row = tx.execute(select(schema.job)).one()
        assert {name: row._mapping[name] for name in kept} == kept
        assert (row.against, row.metric) == (A_PAIR.old.name, A_PAIR.metric)


def _anonymous(row: ResultRow) -> dict[str, object]:
    return vars(row) | {"job": 0, "run": 0}


def test_importing_twice_changes_nothing(lived: tuple[Lab, int], elsewhere: Database) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    first = take(elsewhere, lines)
    assert first == Imported(runs=(1,), new=7, updated=0, known=0, attempts=5)
    before = rows(elsewhere)
    again = take(elsewhere, lines)
    assert again == Imported(runs=(1,), new=0, updated=0, known=7, attempts=0)
    assert rows(elsewhere) == before
    assert export(elsewhere, 1) == lines


def test_a_run_that_goes_on_is_taken_on(lived: tuple[Lab, int], elsewhere: Database) -> None:
    lab, run = lived
    early = export(lab.database, run)
    take(elsewhere, early)
    with elsewhere.reading() as tx:
        assert queries.find_run(tx, "last").progress.counts == {
            JobState.PASSED: 1, JobState.WRONG: 1, JobState.SKIPPED: 1, JobState.ELSEWHERE: 4,
        }  # fmt: skip
    with lab.database.transaction() as tx:
        flying = store.dispatched_before(tx, LATER)
        store.return_lost(tx, [(job.job, job.token) for job in flying], lab.now)
    for device in {job.device for job in flying}:
        lab.settle(device)
    late = export(lab.database, run)
    assert take(elsewhere, late).updated == 3
    assert export(elsewhere, 1) == late
    assert take(elsewhere, early) == Imported(runs=(1,), new=0, updated=0, known=7, attempts=0)
    assert export(elsewhere, 1) == late
    with lab.database.transaction() as tx:
        store.cancel(tx, run, lab.now)
    cancelled = export(lab.database, run)
    assert take(elsewhere, cancelled).updated == 1
    assert export(elsewhere, 1) == cancelled


def test_several_runs_in_one_file_and_one_without_jobs(lab: Lab, elsewhere: Database) -> None:
    device = lab.add_device()
    runs = [lab.submit(device, count) for count in (2, 0, 1)]
    lab.settle(device)
    lines = [line for run in runs for line in export(lab.database, run)]
    assert take(elsewhere, [*lines, "\n"]) == Imported(
        runs=(1, 2, 3), new=3, updated=0, known=0, attempts=3
    )


def test_imports_meet_what_is_there(lived: tuple[Lab, int], tmp_path: Path, url: str) -> None:
    """Into a database with the same device and cases, of either engine."""
    lab, run = lived
    other = f"sqlite:///{tmp_path / 'third.db'}"
    upgrade(other)
    with Database.open(other) as third:
        take(third, export(lab.database, run))
        lines = export(third, 1)
    # at home, where the run was made: everything is known
    assert take(lab.database, lines).known == 7
    with lab.database.reading() as tx:
        assert not queries.find_run(tx, "last").imported


@pytest.mark.parametrize(("state", "taken"), [("skipped", True), ("cancelled", False)])
def test_home_takes_a_result_that_it_lost_and_no_other_state(
    lab: Lab, state: str, taken: bool
) -> None:
    """As after its database came back from a backup: the export knows more than home does."""
    device = lab.add_device()
    run = lab.submit(device, 1)
    [job] = lab.pick(device)
    told = [json.loads(line) for line in export(lab.database, run)]
    [record] = [line["job"] for line in told if "job" in line]
    attempt: dict[str, Any] = {
        **dict.fromkeys(("reason", "variant", "kernel_sha", "environment", "worker"), ""),
        "token": 1,
        "outcome": "skipped",
        "started_at": None,
        "seconds": 0.5,
        "telemetry": {},
        "recorded_at": lab.now,
    }
    settled = {"finished_at": lab.now, "settled_token": 1, "attempts": [attempt]}
    record.update({"state": state, **(settled if state == "skipped" else {})})
    lines = sealed([json.dumps(line, separators=(",", ":")) + "\n" for line in told])
    found = take(lab.database, lines)
    assert (found.updated, found.known, found.attempts) == (taken, not taken, taken)
    assert lab.states(run) == [JobState.SKIPPED if taken else JobState.DISPATCHED]
    assert take(lab.database, lines).known == 1
    own = lab.record(lab.answer(job))
    assert (own.duplicates, own.counts) == ((1, {}) if taken else (0, {JobState.PASSED: 1}))


@pytest.fixture
def half_done(lab: Lab, tmp_path: Path) -> list[str]:
    """An export from another database, of a run with three jobs on this lab's device: none ended.

    One of them was on its way when the run was stopped.
    """
    there = f"sqlite:///{tmp_path / 'there.db'}"
    upgrade(there)
    with Database.open(there) as database:
        other = replace(lab, database=database)
        device = other.add_device()
        run = other.submit(device, 3)
        other.pick(device, 1)
        return export(database, run)


def test_what_an_import_has_left_is_never_ours_to_run(lab: Lab, half_done: list[str]) -> None:
    """Though a worker here serves the very device."""
    device = lab.add_device()
    own = lab.submit(device, 1)
    take(lab.database, half_done)
    imported = own + 1
    assert lab.states(imported) == [JobState.ELSEWHERE] * 3
    with lab.database.transaction() as tx:
        [row] = queries.devices(tx)
        assert (row.queued, row.in_flight, row.elsewhere) == (1, 0, 3)
        assert [job.state for job in queries.jobs(tx, run=imported)] == ["elsewhere"] * 3
        assert queries.find_run(tx, str(imported)).progress.state == "elsewhere"
        assert [each.run for each in store.pick(tx, device, 9, LATER)] == [own]
        assert store.pick(tx, device, 9, LATER, run=imported) == []
        assert store.loads(tx, [device])[device].jobs == 1
        assert [each.run for each in store.dispatched_before(tx, LATER + 1)] == [own]
        assert store.mark_running(tx, [(job.id, 1) for job in queries.jobs(tx, run=imported)]) == 0
        assert store.cancel(tx, imported, LATER) == 0
    assert lab.states(imported) == [JobState.ELSEWHERE] * 3
    assert export(lab.database, imported)[-3:-1] == half_done[-3:-1]


def test_the_rest_of_an_import_may_come_later(
    lab: Lab, half_done: list[str], tmp_path: Path
) -> None:
    take(lab.database, half_done)
    with Database.open(f"sqlite:///{tmp_path / 'there.db'}") as database:
        other = replace(lab, database=database)
        with database.transaction() as tx:
            sent = [(job.job, job.token) for job in store.dispatched_before(tx, LATER)]
            store.return_lost(tx, sent, lab.now)
        other.settle(other.add_device())
        assert take(lab.database, export(database, 1)).updated == 3
    assert lab.states(1) == [JobState.PASSED] * 3


def test_a_calibration_that_goes_on_elsewhere_is_no_roof(lab: Lab, tmp_path: Path) -> None:
    """As soon as it came whole it is one; half of it would tell too low rates."""
    device = lab.add_device()
    with lab.database.transaction() as tx:
        run = store.create_run(
            tx, mode=Mode.PERFORMANCE, selection={"suite": SUITE}, now=lab.now
        ).id
        for case in (LAUNCH, "copy/f32/n1048576"):
            store.add_jobs(tx, run, [lab.planned(device, case)])
    [first] = lab.pick(device, 1)
    lab.record(lab.answer(first))
    there = f"sqlite:///{tmp_path / 'there.db'}"
    upgrade(there)
    with Database.open(there) as database:
        take(database, export(lab.database, run))
        with database.transaction() as tx:
            assert settle(tx, LATER) == 0
        lab.settle(device)
        take(database, export(lab.database, run))
        with database.transaction() as tx:
            assert settle(tx, LATER) == 1


def test_a_newer_announcement_is_not_overwritten(lab: Lab, elsewhere: Database) -> None:
    device = lab.add_device()
    run = lab.submit(device, 1)
    lines = export(lab.database, run)
    older = [line.replace('"memory_bytes":1099511627776', '"memory_bytes":5') for line in lines]
    assert older != lines
    take(lab.database, sealed(older))
    with lab.database.reading() as tx:
        assert queries.devices(tx)[0].facts == lab.facts()


def test_an_imported_device_has_the_environment_of_its_results(
    lived: tuple[Lab, int], elsewhere: Database
) -> None:
    lab, run = lived
    take(elsewhere, export(lab.database, run))
    with lab.database.reading() as here, elsewhere.reading() as there:
        announced = {device.key: device.driver for device in queries.devices(here)}
        imported = {device.key: device for device in queries.devices(there)}
    drivers = [imported[key].driver for key in announced]
    assert drivers == [announced[next(iter(announced))], None]  # the second one has no attempt
    assert {device.last_seen for device in imported.values()} == {None}


def test_every_cut_leaves_nothing(lived: tuple[Lab, int], elsewhere: Database) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    before = rows(elsewhere)
    for end in range(len(lines)):
        for cut in (lines[:end], [*lines[:end], lines[end][: len(lines[end]) // 2]]):
            with pytest.raises(ImportRefused, match=r"line \d+: |the file is empty"):
                take(elsewhere, cut)
    assert rows(elsewhere) == before


def test_every_changed_or_missing_line_leaves_nothing(
    lived: tuple[Lab, int], elsewhere: Database
) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    before = rows(elsewhere)
    for number, line in enumerate(lines):
        digit = next(i for i in range(len(line) - 1, 0, -1) if line[i].isalnum())
        changed = line[:digit] + ("1" if line[digit] != "1" else "2") + line[digit + 1 :]
        for other in ([changed], [], [line, line]):
            with pytest.raises(ImportRefused):
                take(elsewhere, [*lines[:number], *other, *lines[number + 1 :]])
    assert rows(elsewhere) == before


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"version":1', '"version":2', "line 1: version 2 .* update vkbench"),
        ("vkbench-results", "other-results", "line 1: 'other-results' is not an export"),
        ('{"run"', '{"ruin"', "line 2: unknown kind 'ruin'"),
        ('{"run"', '{"a":1,"run"', "line 2: malformed: a line has one field, its kind; this one 2"),
        ('{"header"', '{"herder"', "line 1: it is no export of vkbench: unknown kind 'herder'"),
        ('"priority":0', '"priority":"high"', "line 2: malformed: .*priority"),
        ('"priority":0', '"priority":99999999999999999999', "cannot be kept|malformed"),
        ('"state":"wrong"', '"state":"splendid"', r"line \d+: malformed: .*splendid"),
        ('"state":"wrong"', '"state":"queued"', "contradict"),
        ('"settled_token":1', '"settled_token":3', "the attempt that settled it is missing"),
        ("mul_mat_vec/q4_0/m1_n1_k256", "mul_mat_vec", "malformed case"),
        ('"device":"', '"device":"f', "is not in the file"),
        ('"key":"', '"key":"f', r"line 3: the key 'f\w+' is not one of the device's host and UUID"),
        (
            '"uuid":"',
            '"uuid":"f',
            r"line 3: the key '\w+' is not one of the device's host and UUID",
        ),
        (
            '"host":"',
            '"host":"f',
            r"line 3: the key '\w+' is not one of the device's host and UUID",
        ),
        ('"samples":"', '"samples":"?', "samples cannot be read"),
        ('"driver":"', '"driver":"forged ', r"line \d+: the facts are not those"),
        ('"variant":"auto"', f'"variant":"{"v" * 1001}"', r"line \d+: variant has 1001 bytes"),
        ('"variant":"auto"', '"variant":"\\u001b[2J"', r"line \d+: variant has the control char"),
        ('"track":"main"', '"track":"\\u202emain"', "line 2: track has the control character"),
        ('"reason":"', '"reason":"\\u0000', r"line \d+: reason has a NUL"),
        ('"created_at":', '"created_at":99999999', r"line 2: created_at is .* no date between"),
        ('"finished_at":1', '"finished_at":999999999991', r"line \d+: finished_at is .* no date"),
        ('"tags":{', f'"tags":{{"a":"{"x" * 100_000}",', "line 2: tags has 1000.. bytes"),
        ('"selection":{', f'"selection":{{"a":{"[" * 5000}', "line 2: malformed"),
    ],
)
def test_a_forged_line_is_named(
    lived: tuple[Lab, int], elsewhere: Database, old: str, new: str, complaint: str
) -> None:
    lab, run = lived
    forged = [line.replace(old, new) for line in export(lab.database, run)]
    before = rows(elsewhere)
    with pytest.raises(ImportRefused, match=complaint) as error:
        take(elsewhere, sealed(forged))
    assert "\n" not in str(error.value)
    assert rows(elsewhere) == before


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "[]\n", "{}\n", "null\n", '{"a":1,"b":2}\n'])
def test_what_is_no_export_is_refused(elsewhere: Database, text: str) -> None:
    with pytest.raises(ImportRefused):
        take(elsewhere, [text] if text else [])


def test_a_run_of_the_same_uuid_with_other_jobs_is_refused(
    lived: tuple[Lab, int], elsewhere: Database
) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    take(elsewhere, lines)
    others = [line.replace('"variant":"auto"', '"variant":"portable"') for line in lines]
    with pytest.raises(ImportRefused, match="is another one here"):
        take(elsewhere, sealed(others))
    assert export(elsewhere, 1) == lines


def bundle_line(manifest: str, sha: str) -> str:
    told = {"sha": sha, "name": "b", "manifest": manifest, "created_at": 1.0}
    return json.dumps({"bundle": told}, separators=(",", ":")) + "\n"


def test_a_manifest_comes_under_its_own_hash_alone(
    lived: tuple[Lab, int], elsewhere: Database
) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    at = next(number for number, line in enumerate(lines) if line.startswith('{"job"'))
    sha = hashlib.sha256(b"true").hexdigest()
    with pytest.raises(ImportRefused, match=f"line {at + 1}: the manifest is not the one"):
        take(elsewhere, sealed([*lines[:at], bundle_line("junk", sha), *lines[at:]]))
    take(elsewhere, sealed([*lines[:at], bundle_line("true", sha), *lines[at:]]))
    with elsewhere.reading() as tx:
        assert tx.execute(select(schema.bundle.c.manifest)).scalar_one() == "true"


def test_what_a_person_wrote_of_a_run_is_cleaned(
    lived: tuple[Lab, int], elsewhere: Database
) -> None:
    lab, run = lived
    written = '"label":"\\u001b[31mred\\u001b[0m\\n'
    lines = [line.replace('"label":"tuning', written) for line in export(lab.database, run)]
    take(elsewhere, sealed(lines))
    with elsewhere.reading() as tx:
        assert queries.find_run(tx, "last").label == "?[31mred?[0m? ü"


def test_facts_of_versions_that_knew_fewer_fields_are_taken(
    lived: tuple[Lab, int], elsewhere: Database
) -> None:
    lab, run = lived
    lines = export(lab.database, run)
    [line] = [line for line in lines if line.startswith('{"environment"')]
    told = json.loads(line)["environment"]
    assert told["facts"].pop("extra") == {}
    text = json.dumps(told["facts"], sort_keys=True).encode()
    older = json.dumps({"environment": told | {"hash": hashlib.sha256(text).hexdigest()}}) + "\n"
    assert take(elsewhere, sealed([older if each is line else each for each in lines])).new == 7


def test_a_line_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MOST_LINE_CHARACTERS", 10)
    (tmp_path / "file").write_text("12345678\n" + "x" * 100)
    with (tmp_path / "file").open() as file, pytest.raises(ImportRefused, match="line 2: it has"):
        list(lines_of(file))


def test_records_that_were_never_lines_are_checked_too(lab: Lab) -> None:
    forged = transcript.Line(7, "device", replace(lab.facts(), key="f" * 12))
    with (
        pytest.raises(ImportRefused, match="line 7: the key"),
        lab.database.transaction() as tx,
    ):
        import_records(tx, [forged], LATER)
