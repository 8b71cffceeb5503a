"""A device selector means the same devices, or ends with the same error, in every command."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, update

from commands import Captured, read_rows, run_command
from vkbench.device import DeviceFacts
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database

pytestmark = pytest.mark.slow


HERE, NEAR, FAR, FURTHER = "252e5e39f6aa", "1111aaaa0000", "1111bbbb0000", "beef00000000"
NAMES = {
    HERE: ("here", 0, "Planted 9000"),
    NEAR: ("lab1", 0, "NVIDIA H200"),
    FAR: ("lab1", 1, "NVIDIA H200 NVL"),
    FURTHER: ("lab2", 0, "NVIDIA GeForce RTX 4090"),
}
COPY = "copy/f32/n4096"
CHECK = ("-k", "copy", "-f", "f32", "-s", "n=4096", "--mode", "correctness")

TABLE = [
    ("*", {HERE, NEAR, FAR, FURTHER}),
    (FAR, {FAR}),
    ("beef", {FURTHER}),
    ("1111A", {NEAR}),
    ("4" * 32, {FURTHER}),
    ("1", {FAR}),
    ("lab2/0", {FURTHER}),
    ("lab1/nvidia", {NEAR, FAR}),
    ("host:LAB1", {NEAR, FAR}),
    ("lab1", {NEAR, FAR}),
    ("nvidia h200", {NEAR}),
    ("h200", {NEAR, FAR}),
    ("nvidia*", {NEAR, FAR, FURTHER}),
    ("1,planted", {HERE, FAR}),
]
ERRORS = [
    ("h300", "unknown device 'h300'; did you mean 'NVIDIA H200 NVL'"),
    ("7", "unknown device '7'; there is 'here/0', 'lab1/0', 'lab1/1' or 'lab2/0'"),
    ("1111", "device '1111' may be lab1/0 (NVIDIA H200, 1111aaaa0000), lab1/1 ("),
    ("", "unknown device ''"),
]


@pytest.fixture
def fleet(past: Any, planted_regression: Callable[..., int]) -> Database:
    """Four devices of three hosts, each with results, a calibration, a regression, a suspicion."""
    for number, (key, (host, index, name)) in enumerate(NAMES.items(), 1):
        facts: DeviceFacts = replace(
            past.device, key=key, host=host, index=index, name=name, uuid=str(number) * 32
        )
        past.add_device(facts)
        if key != HERE:
            past.run("night", *map(past.done, (1e-3, 2e-6, 3e-6)), device=key)
        assert planted_regression(key, COPY, "", "") == number
    with past.database.transaction() as tx:
        tx.execute(update(schema.series).values(sigma=0.01, smallest_effect=0.02))
        tx.execute(update(schema.change_point).values(state="suspected"))
        for device in tx.execute(select(schema.device.c.id)).scalars().all():
            row = {"device_id": device, "environment": "", "measured_at": time.time()}
            tx.execute(insert(schema.calibration).values(**row, run_id=1, matrices={}))
    return past.database


@pytest.mark.parametrize(("selector", "meant"), TABLE)
def test_every_command_means_the_same(
    fleet: Database, capsys: Captured, selector: str, meant: set[str]
) -> None:
    answers = {name: ask(fleet, capsys, selector) for name, ask in ASKING.items()}
    assert answers == dict.fromkeys(ASKING, meant)


def test_an_index_is_this_machine_s_but_for_a_schedule(fleet: Database, capsys: Captured) -> None:
    """The scheduler, wherever it is, fires a schedule: it cannot know whose index was meant."""
    for name, ask in ASKING.items():
        if name != "schedule":
            assert ask(fleet, capsys, "0") == {HERE}, name
    code, err = failed(capsys, *SCHEDULED, "-d", "0")
    assert (code, "device '0' may be here/0 (" in err) == (2, True)


@pytest.mark.parametrize(("selector", "words"), ERRORS)
@pytest.mark.usefixtures("fleet")
def test_every_command_refuses_in_the_same_words(
    capsys: Captured, selector: str, words: str
) -> None:
    refusals = {name: failed(capsys, *command(selector)) for name, command in COMMANDS.items()}
    code, err = refusals["results"]
    assert code == 2
    assert words in err
    assert refusals == dict.fromkeys(COMMANDS, (code, err))


@pytest.mark.usefixtures("database")
def test_without_any_device_every_command_says_what_to_do(capsys: Captured) -> None:
    start = "start `vkbench scheduler`, and `vkbench worker` on a GPU host"
    advice = (7, f"vkbench: no device is known: {start}\n")
    for name, command in COMMANDS.items():
        code, err = failed(capsys, *command("h200"))
        if name in READING:  # nothing is recorded, so no selector is wrong
            assert code == 0, name
            assert " yet: " in err, name
            assert "`vkbench " in err, name
        elif name != "schedule":  # a fleet may be scheduled before it has devices
            assert (code, err) == advice, name


@pytest.mark.usefixtures("fleet")
def test_one_device_is_compared(capsys: Captured) -> None:
    code, err = failed(capsys, "compare", "device:h200", "device:4090")
    assert (code, "device 'h200' may be lab1/0 (NVIDIA H200, 1111aaaa0000), lab1/1" in err) == (
        2,
        True,
    )


def failed(capsys: Captured, *words: str) -> tuple[int, str]:
    """Exit code and stderr of a command."""
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    assert out == ""
    return code, err


def listing(*words: str) -> Callable[[Database, Captured, str], set[str]]:
    """Asks a command whose rows name a device."""

    def ask(database: Database, capsys: Captured, selector: str) -> set[str]:
        return {row["device"] for row in read_rows(capsys, *words, "-d", selector)}

    return ask


def regressed(database: Database, capsys: Captured, selector: str) -> set[str]:
    """Regressions are numbered in the order of their devices."""
    listed = read_rows(capsys, "regressions", "ls", "-d", selector)
    return {list(NAMES)[row["id"] - 1] for row in listed}


def paused(database: Database, capsys: Captured, selector: str) -> set[str]:
    assert cli.main(["pause", selector]) == 0
    with database.reading() as tx:
        held = {row.key for row in queries.devices(tx) if row.paused}
    assert cli.main(["resume", selector]) == 0
    with database.reading() as tx:
        assert not [row for row in queries.devices(tx) if row.paused]
    capsys.readouterr()
    return held


def submitted(database: Database, capsys: Captured, selector: str) -> set[str]:
    return _devices(database, int(run_command(capsys, "submit", *CHECK, "-d", selector)[0]))


def fired(database: Database, capsys: Captured, selector: str) -> set[str]:
    assert cli.main([*SCHEDULED, "-d", selector]) == 0
    return _devices(database, int(run_command(capsys, "schedule", "fire", "nightly")[0]))


def _devices(database: Database, run: int) -> set[str]:
    with database.reading() as tx:
        return _of_run(tx, run)


def _of_run(tx: Connection, run: int) -> set[str]:
    return {job.device for job in queries.jobs(tx, run=run, limit=None)}


SCHEDULED = ("schedule", "add", "nightly", "--cron", "@daily", *CHECK)
ASKING: dict[str, Callable[[Database, Captured, str], set[str]]] = {
    "results": listing("results"),
    "jobs": listing("jobs", "--limit", "0"),
    "noise": listing("noise"),
    "calibrate": listing("calibrate", "--show"),
    "suspected": listing("regressions", "suspected"),
    "regressions": regressed,
    "pause": paused,
    "submit": submitted,
    "schedule": fired,
}
COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "results": lambda selector: ("results", "-d", selector),
    "jobs": lambda selector: ("jobs", "-d", selector),
    "noise": lambda selector: ("noise", "-d", selector),
    "calibrate": lambda selector: ("calibrate", "--show", "-d", selector),
    "suspected": lambda selector: ("regressions", "suspected", "-d", selector),
    "regressions": lambda selector: ("regressions", "ls", "-d", selector),
    "pause": lambda selector: ("pause", selector),
    "resume": lambda selector: ("resume", selector),
    "submit": lambda selector: ("submit", *CHECK, "-d", selector),
    "schedule": lambda selector: (*SCHEDULED, "-d", selector),
    "compare": lambda selector: ("compare", f"device:{selector}", "1"),
    "bisect": lambda selector: (
        *("bisect", "--submit", "--case", COPY, "--bundles", "packaged,packaged"),
        *("-d", selector),
    ),
}
READING = ("results", "jobs", "noise", "calibrate", "suspected", "regressions")
