"""Devices register, come back changed, and stay what they were."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import func, select

from databases import Lab
from vkbench.device import DeviceFacts, Environment
from vkbench.messages.wire import Announcement
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.work import store
from vkbench_db.work.devices import SCHEDULER


def announce(
    lab: Lab, facts: DeviceFacts, environment: Environment, *, worker: str = "alpha:1"
) -> int:
    announcement = Announcement(
        worker=worker, facts=facts, environment=environment, bundle="b0" * 32
    )
    with lab.database.transaction() as tx:
        return store.register_device(tx, announcement, lab.now)


def test_a_device_is_registered_with_all_its_facts(lab: Lab, environment: Environment) -> None:
    facts = lab.facts()
    announce(lab, facts, environment)
    lab.now += 60
    announce(lab, replace(facts, memory_bytes=7), environment, worker="alpha:2")
    with lab.database.reading() as tx:
        [device] = queries.devices(tx)
    assert device.facts == replace(facts, memory_bytes=7)
    assert (device.key, device.host, device.name) == (facts.key, "alpha", "llvmpipe")
    assert (device.worker, device.bundle, device.last_seen) == ("alpha:2", "b0" * 32, lab.now)
    assert (device.driver, device.driver_version) == ("llvmpipe", "22.3.6")
    assert (device.queued, device.in_flight, device.paused) == (0, 0, False)


def test_a_new_driver_is_a_new_environment_of_the_same_device(
    lab: Lab, environment: Environment
) -> None:
    newer = replace(environment, driver_version="23.1")
    ids = {announce(lab, lab.facts(), env) for env in (environment, newer, newer)}
    assert len(ids) == 1
    with lab.database.reading() as tx:
        hashes = set(tx.execute(select(schema.environment.c.hash)).scalars())
        assert queries.devices(tx)[0].driver_version == "23.1"
    assert hashes == {environment.hash, newer.hash}


def test_devices_of_one_host_share_it(lab: Lab) -> None:
    lab.add_device()
    lab.add_device("SwiftShader")
    lab.add_device("llvmpipe", "beta")
    with lab.database.reading() as tx:
        assert [(d.host, d.name) for d in queries.devices(tx)] == [
            ("alpha", "SwiftShader"),
            ("alpha", "llvmpipe"),
            ("beta", "llvmpipe"),
        ]
        assert tx.execute(select(func.count()).select_from(schema.host)).scalar() == 2


def test_a_device_that_a_scheduler_paused_is_on_trial_when_it_is_resumed(lab: Lab) -> None:
    key = lab.add_device()
    with lab.database.transaction() as tx:
        store.pause(tx, key, store.Pause(reason="fan", by="ann", at=lab.now, recall=True))
        assert store.recalled_devices(tx) == [key]
        assert queries.devices(tx)[0].paused_at == lab.now
        assert not store.resume(tx, key, lab.now)
        assert (store.recalled_devices(tx), queries.devices(tx)[0].paused_by) == ([], "")
        store.pause(tx, key, store.Pause(reason="broken", by=SCHEDULER, at=lab.now))
        assert store.resume(tx, key, lab.now)
        assert store.resume(tx, key, lab.now)  # a second time changes nothing


def test_what_waits_is_counted_by_device(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader")
    lab.submit(first, 5)
    lab.submit(second, 2)
    jobs = lab.pick(first, 3)
    lab.record(lab.answer(jobs[0]))
    with lab.database.transaction() as tx:
        store.mark_running(tx, [(jobs[1].id, 1)])
        counts = {d.key: (d.queued, d.in_flight) for d in queries.devices(tx)}
    assert counts == {first: (2, 2), second: (2, 0)}
