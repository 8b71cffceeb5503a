"""Two recorded runs of a planted device in a database, and how to add more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import Connection, Table, insert, select

from vkbench.device import DeviceFacts, Environment
from vkbench.job import MAIN, Job, Mode, Outcome, PlannedJob
from vkbench.messages.wire import Announcement
from vkbench.result import Result, Side, Timing, Verdict, pack_samples
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.runs import case_ids

DEVICE = DeviceFacts(
    key="252e5e39f6aa",
    host="here",
    index=0,
    name="Planted 9000",
    uuid="0" * 32,
    vendor_id=0,
    device_id=0,
    type="other",
    memory_bytes=1 << 30,
    subgroup_size=8,
    features=("shader_float16",),
    limits={},
)
ENVIRONMENT = Environment(
    driver="planted",
    driver_version="1.2",
    driver_info="",
    api_version="1.3",
    loader="",
    os="",
    os_kernel="",
    cpu="",
    vkbench="0",
)
CASES = ("copy/f32/n4096", "mul_mat_vec/q4_0/m64_n1_k256", "mul_mat_vec/q8_0/m64_n1_k256")


@pytest.fixture
def filled(database: Database) -> Database:
    """Two runs of three timings; in the second copy takes twice as long and a product is wrong."""
    announcement = Announcement(worker="w", facts=DEVICE, environment=ENVIRONMENT, bundle="")
    with database.transaction() as tx:
        store.register_device(tx, announcement, time.time())
    do_run(database, [done(1e-3), done(2e-6), done(3e-6)], label="before")
    do_run(database, [done(2e-3), done(2e-6), WRONG], label="after")
    return database


@dataclass(frozen=True)
class Past:
    """The filled database, and how to go on with it."""

    database: Database
    device: DeviceFacts = DEVICE
    environment: Environment = ENVIRONMENT

    def add_device(self, device: DeviceFacts, environment: Environment = ENVIRONMENT) -> None:
        """A device announces itself."""
        said = Announcement(worker="w", facts=device, environment=environment, bundle="")
        with self.database.transaction() as tx:
            store.register_device(tx, said, time.time())

    def run(
        self,
        label: str,
        *endings: Result,
        device: str = DEVICE.key,
        cases: Sequence[str] = CASES,
    ) -> int:
        """A run of all cases that ends as told."""
        return do_run(self.database, endings, label, device, cases=cases)

    def sweep(self, *endings: Result) -> int:
        """A sweep of `vkbench tune` that times each case once."""
        return do_run(self.database, endings, "", purpose=Purpose(kind=RunKind.SWEEP))

    def done(self, seconds: float) -> Result:
        """A passed attempt."""
        return done(seconds)

    def wrong(self, reason: str) -> Result:
        """A wrong one."""
        return replace(WRONG, reason=reason)


@pytest.fixture
def past(filled: Database) -> Past:
    """Two runs, and more if you like."""
    return Past(filled)


def do_run(
    database: Database,
    endings: Sequence[Result],
    label: str,
    device: str = DEVICE.key,
    purpose: Purpose = Purpose(),  # noqa: B008
    cases: Sequence[str] = CASES,
) -> int:
    """A run of all cases that ends as told."""
    with database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.PERFORMANCE,
            selection={},
            now=time.time(),
            track=MAIN if purpose.kind is RunKind.WORK else "",
            words=RunWords(label=label, purpose=purpose),
        )
        planned = [PlannedJob(device=device, case=case, mode=Mode.PERFORMANCE) for case in cases]
        store.add_jobs(tx, run.id, planned)
        picked = store.pick(tx, device, len(cases), time.time())
        results = [_of(each.job, end) for each, end in zip(picked, endings, strict=True)]
        store.record(tx, results, time.time())
    return run.id


def done(seconds: float) -> Result:
    """A passed attempt with a hot and a cold timing."""
    timings = tuple(timing(metric, seconds) for metric in ("hot", "cold"))
    return replace(WRONG, outcome=Outcome.PASSED, reason="", verdict=verdict(True), timings=timings)


def timing(metric: str, seconds: float, spread: float = 0.01, side: Side = Side.OURS) -> Timing:
    """A timing whose interval is so wide on each side of the median."""
    return Timing(
        metric=metric,
        side=side,
        seconds=seconds,
        mad=seconds / 200,
        low=seconds * (1 - spread),
        high=seconds * (1 + spread),
        confidence=0.95,
        best=seconds * 0.98,
        count=8,
        launches=1,
        stop="noise",
        clock="gpu",
        bytes_moved=10_000,
        flops=0,
        samples=pack_samples([seconds] * 8),
    )


def verdict(passed: bool) -> Verdict:
    """A verdict of the float32 path."""
    return Verdict(
        passed=passed,
        reason="" if passed else "NMSE 0.5 is over 1e-10",
        path="f32",
        nmse=1e-14 if passed else 0.5,
        nmse_limit=1e-10,
        max_abs=1e-7 if passed else 3.0,
        max_abs_limit=1e-4,
        compared=64,
        total=64,
    )


WRONG = Result(
    job=0,
    token=0,
    outcome=Outcome.WRONG,
    reason="NMSE 0.5 is over 1e-10",
    variant="subgroup",
    verdict=verdict(False),
    environment=ENVIRONMENT.hash,
    started=1.0,
)


def _of(job: Job, end: Result) -> Result:
    return replace(end, job=job.id, token=job.token, case=job.case)


@pytest.fixture
def planted_regression(database: Database) -> Callable[..., int]:
    """Makes a regression of one case on a device, between two bundles."""

    def plant(device: str, case: str, before: str, after: str) -> int:
        with database.transaction() as tx:
            return _regression(tx, device, case, before, after)

    return plant


def _regression(tx: Connection, device: str, case: str, before: str, after: str) -> int:
    run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=1.0).id
    store.add_jobs(tx, run, [PlannedJob(device=device, case=case, mode=Mode.PERFORMANCE)] * 2)
    first, second = (row.id for row in queries.jobs(tx, run=run))
    key = schema.device.c.key == device
    series = _made(
        tx,
        schema.series,
        device_id=tx.execute(select(schema.device.c.id).where(key)).scalar_one(),
        case_id=case_ids(tx, [case])[case],
        variant="portable",
        metric="hot",
        environment_class="default",
        track=f"main {run}",
    )
    change = _made(
        tx,
        schema.change_point,
        series_id=series,
        method="screen",
        direction="slower",
        before_job=first,
        after_job=second,
        before_kernel="",
        after_kernel="",
        before_bundle=before,
        after_bundle=after,
        before_environment="",
        after_environment="",
        found_at=1.0,
        ratio=1.1,
        low=1.05,
        high=1.15,
        p=0.0001,
        state="confirmed",
        cause="kernel",
    )
    regression = _made(
        tx,
        schema.regression,
        group_key="k",
        direction="slower",
        cause="kernel",
        title="copy is slower",
        state="open",
        opened_at=1.0,
        changed_at=1.0,
    )
    row = {"change_point_id": change, "regression_id": regression}
    tx.execute(insert(schema.regression_member).values(**row))
    return regression


def _made(tx: Connection, table: Table, **values: object) -> int:
    return int(tx.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())
