"""What waits for each device, and since when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import Lab
from vkbench.job import Mode
from vkbench_db.ask.devices.queues import Queue, queues
from vkbench_db.upkeep.attendance import LATELY_SECONDS
from vkbench_db.work import store
from vkbench_db.work.devices import store_device


def found(lab: Lab) -> list[Queue]:
    with lab.database.reading() as tx:
        return queues(tx)


def submitted_at(lab: Lab, device: str, moment: float) -> int:
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=moment).id
        store.add_jobs(tx, run, [lab.planned(device, 1), lab.planned(device, 2)])
    return run


def test_a_queue_has_its_depth_and_the_age_of_its_oldest_job(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader", "beta")
    old = submitted_at(lab, first, lab.now - 500.0)
    submitted_at(lab, first, lab.now - 20.0)
    lab.pick(first, 1)
    one, other = found(lab)
    assert (one.key, one.queued, one.in_flight, one.waiting) == (first, 3, 1, 4)
    assert one.oldest_at == pytest.approx(lab.now - 500.0)
    assert (other.key, other.waiting, other.oldest_at) == (second, 0, None)
    with lab.database.transaction() as tx:
        store.cancel(tx, old, lab.now)
    assert found(lab)[0].oldest_at == pytest.approx(lab.now - 20.0)


def test_a_queue_knows_its_worker_and_its_pause(lab: Lab) -> None:
    key = lab.add_device()
    assert not found(lab)[0].paused
    with lab.database.transaction() as tx:
        store.pause(tx, key, store.Pause())
    [queue] = found(lab)
    assert queue.paused
    assert queue.last_seen == pytest.approx(lab.now)
    assert queue.is_served(lab.now + LATELY_SECONDS)
    assert not queue.is_served(lab.now + LATELY_SECONDS + 1)


def test_a_device_that_came_with_an_import_has_no_queue(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        store_device(tx, replace(lab.facts(), key="ab" * 6))
    assert found(lab) == []
