"""What a device costs the scheduler while it is idle: no statement, few commands, few calls."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import cast

import pytest
from sqlalchemy import event

from cluster import Lab
from simulated_fleet import Device, Fleet
from vkbench.job import Mode, PlannedJob
from vkbench.messages.keys import new_keys, read_keys
from vkbench.messages.redis_client import connect
from vkbench.messages.signing import Keys
from vkbench_db.ask import queries
from vkbench_db.work import store
from vkbench_scheduler import service
from vkbench_scheduler.heartbeat import Heartbeat
from vkbench_scheduler.queue import registry
from vkbench_scheduler.watch import health

MakeLab = Callable[..., Lab]

FEW, MANY = 10, 50
TURNS = 3
COMMANDS = 2  # its announcement and its lease are read
CALLS = 200  # of Python functions: what a signature, a stamp and an answer of Redis take


@dataclass(kw_only=True)
class Cost:
    """What was done meanwhile."""

    statements: int = 0
    commands: int = 0
    calls: int = 0


class Scheduler:
    """The dispatching thread of a scheduler, and the fleet that it looks at each turn."""

    def __init__(self, lab: Lab, keys: Keys) -> None:
        self.lab = lab
        self.fleet = Fleet(connect(lab.settings.redis), keys, MANY)
        self._heartbeat = Heartbeat(lab.database, lab.settings)
        self._stop = threading.Event()
        self._stop.set()  # it does not wait after a turn

    def turns(self, devices: Sequence[Device], number: int = TURNS) -> Cost:
        """The costs of so many turns, each of which looks at these devices anew."""
        make = service._dispatching
        turn = make(self.lab.database, self.lab.settings, self._stop, self._heartbeat)
        self.fleet.beat(devices)
        turn()
        turn()
        cost = Cost()
        for _ in range(number):
            self.fleet.beat(devices)
            with self.counted(cost):
                turn()
        return cost

    def filled(self, devices: Sequence[Device]) -> Cost:
        """The costs of the turn that sends each of these devices a job."""
        make = service._dispatching
        turn = make(self.lab.database, self.lab.settings, self._stop, self._heartbeat)
        self.fleet.beat(self.fleet.devices)
        turn()
        jobs = [
            PlannedJob(
                device=each.key, case="add/f32/n64", mode=Mode.CORRECTNESS, estimate_seconds=9.0
            )
            for each in devices
        ]
        with self.lab.database.transaction() as tx:
            run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=time.time())
            store.add_jobs(tx, run.id, jobs)
        cost = Cost()
        with self.counted(cost):
            turn()
        with self.lab.database.reading() as tx:
            assert all(
                load.jobs for load in store.loads(tx, [each.key for each in devices]).values()
            )
        return cost

    @contextmanager
    def counted(self, cost: Cost) -> Iterator[None]:
        """Add what is done within."""

        def note(*_: object) -> None:
            cost.statements += 1

        def called(frame: FrameType, what: str, argument: object) -> None:
            cost.calls += what == "call"

        engine, before = self.lab.database.engine, self._commands()
        event.listen(engine, "before_cursor_execute", note)
        sys.setprofile(called)
        try:
            yield
        finally:
            sys.setprofile(None)
            event.remove(engine, "before_cursor_execute", note)
            cost.commands += self._commands() - before - 1  # without the one that asks

    def _commands(self) -> int:
        stats = cast(dict[str, int], self.lab.redis.client.info("stats"))
        return stats["total_commands_processed"]


@pytest.fixture(params=["unsigned", "signed"])
def scheduler(
    make_lab: MakeLab, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Scheduler:
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.0)  # each turn looks
    lab = make_lab()
    if request.param == "unsigned":
        return Scheduler(lab, read_keys(lab.settings))
    new_keys(lab.folder / "keys")
    lab.settings = replace(lab.settings, keys=str(lab.folder / "keys"))
    return Scheduler(lab, read_keys(lab.settings))


def test_an_idle_device_costs_no_statement_and_little_else(scheduler: Scheduler) -> None:
    devices = scheduler.fleet.devices
    few, many = scheduler.turns(devices[:FEW]), scheduler.turns(devices)
    looks = TURNS * (MANY - FEW)
    assert many.statements == few.statements
    assert (many.commands - few.commands) / looks <= COMMANDS
    assert (many.calls - few.calls) / looks <= CALLS


def test_new_devices_and_those_still_there_are_stored_together(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SEEN_SECONDS", 0.0)  # each turn says who is still there
    devices = scheduler.fleet.devices
    few = scheduler.turns(devices[:FEW])
    many = scheduler.turns(devices)
    assert many.statements == few.statements
    with scheduler.lab.database.reading() as tx:
        assert len(queries.devices(tx)) == MANY


def test_a_device_that_jobs_wait_for_costs_three_statements(scheduler: Scheduler) -> None:
    """What its last jobs took, which runs wait, and the first jobs of each: one here."""
    devices = scheduler.fleet.devices
    few, many = scheduler.filled(devices[:FEW]), scheduler.filled(devices[FEW:])
    assert (many.statements - few.statements) / (MANY - 2 * FEW) <= 3


def test_a_device_that_is_well_costs_health_no_statement(scheduler: Scheduler) -> None:
    costs = []
    for some in (FEW, MANY):
        scheduler.turns(scheduler.fleet.devices[:some], 1)
        cost = Cost()
        with scheduler.counted(cost):
            health.step(scheduler.lab.database, 0.0)
        costs.append(cost)
    assert costs[0].statements == costs[1].statements
