"""A result that the database cannot store is set aside; its job ends, and others go on."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from sqlalchemy import select

import planted_runner
from cluster import Lab
from vkbench.job import Job, JobState, Outcome
from vkbench.messages import wire
from vkbench.messages.wire import Announcement
from vkbench.result import Result, Timing, pack_samples
from vkbench_db import schema
from vkbench_db.errors import DatabaseUnreachable
from vkbench_db.work import store
from vkbench_db.work.refused import MOST_KEPT, Refusal, count_refused, set_aside
from vkbench_scheduler.queue.collect import Collector
from vkbench_scheduler.queue.stream import ResultStream

TIMING = Timing(
    metric="hot",
    seconds=1e-3,
    mad=0.0,
    low=1e-3,
    high=1e-3,
    confidence=0.95,
    best=1e-3,
    count=1,
    launches=1,
    stop="noise",
    clock="gpu",
    bytes_moved=1,
    flops=1,
    samples=pack_samples([1e-3]),
)


def sent(lab: Lab, count: int) -> list[Job]:
    """Jobs in flight to a device that no worker serves."""
    announcement = Announcement(
        worker="lab:1",
        facts=planted_runner.facts("a", lab.settings),
        environment=planted_runner.environment(),
        bundle="b",
    )
    with lab.database.transaction() as tx:
        store.register_device(tx, announcement, time.time())
    lab.submit([f"sleep/f32/n{number}" for number in range(count)])
    with lab.database.transaction() as tx:
        return [picked.job for picked in store.pick(tx, lab.key("a"), 100, time.time())]


def passed(job: Job, metric: str = "hot") -> Result:
    return Result(
        job=job.id,
        token=job.token,
        outcome=Outcome.PASSED,
        case=job.case,
        timings=(replace(TIMING, metric=metric),),
    )


def put(lab: Lab, *bodies: bytes) -> None:
    for body in bodies:
        lab.redis.client.xadd(wire.RESULTS, {wire.RESULT_FIELD: body})


def long_key() -> str:
    """A key over the limit of PostgreSQL's indexes, also after it is compressed."""
    letters = random.Random(1)
    return "".join(chr(letters.randrange(0x4E00, 0x9FFF)) for _ in range(4000))


def collector(lab: Lab) -> Collector:
    return Collector(lab.database, ResultStream(lab.redis.client, "test"))


def test_what_the_database_refuses_is_set_aside_and_others_go_on(lab: Lab) -> None:
    bad, good = sent(lab, 2)
    put(lab, b"no result", wire.encode(passed(bad, long_key())), wire.encode(passed(good)))
    collector(lab).turn()
    (first, second) = lab.jobs(1)
    assert (first.state, first.tries, first.cause) == (JobState.QUEUED, 1, Outcome.ERROR)
    assert first.reason.startswith("the database refuses this result: index row")
    assert second.state == JobState.PASSED
    assert lab.redis.client.xlen(wire.RESULTS) == 0
    with lab.database.reading() as tx:
        kept = tx.execute(select(schema.refused).order_by(schema.refused.c.id)).all()
    assert [row.job_id for row in kept] == [None, bad.id]
    assert kept[0].body == b"no result"
    assert kept[1].body == wire.encode(passed(bad, long_key()))
    assert "malformed Result" in kept[0].reason
    assert "index row" in kept[1].reason


def test_results_wait_while_the_database_takes_no_writes(lab: Lab) -> None:
    (job,) = sent(lab, 1)
    put(lab, wire.encode(passed(job)))
    collecting = collector(lab)
    with lab.database.engine.connect() as admin:
        name = admin.exec_driver_sql("SELECT current_database()").scalar()
        admin.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        admin.commit()
    lab.database.engine.dispose()
    with pytest.raises(DatabaseUnreachable, match="read-only"):
        collecting.turn()
    assert lab.redis.client.xlen(wire.RESULTS) == 1
    with lab.database.engine.connect() as admin:
        admin.exec_driver_sql("SET TRANSACTION READ WRITE")
        admin.exec_driver_sql(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        admin.commit()
    lab.database.engine.dispose()
    collecting.turn()
    assert lab.jobs(1)[0].state == JobState.PASSED


def test_the_oldest_of_too_many_are_forgotten(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        for number in range(3):
            some = [Refusal(job_id=2**70, reason="a\0b", body=b"%d" % number)] * 500
            set_aside(tx, some, time.time())
        bodies = tx.execute(select(schema.refused.c.body).distinct()).scalars().all()
        assert count_refused(tx) == MOST_KEPT
    assert sorted(bodies) == [b"1", b"2"]
