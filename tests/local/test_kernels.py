"""What a run needs is compiled before its first job, and no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.case import is_model
from vkbench.job import Job, Mode, PlannedJob
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_local.executor import store_run
from vkbench_local.kernels import compile_kernels
from vkbench_scheduler.bundles import find_stored
from vkbench_scheduler.planning.plan import tasks
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.suites import suite_named
from vkbench_shaders import bundle as bundles
from vkbench_shaders.bundle import PROBES, compile_rest, load, packaged
from vkbench_shaders.compile.build import begin
from vkbench_shaders.compile.tree import TREE
from vkbench_worker.runner.plans import plan_job
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.null import NullDevice

pytestmark = pytest.mark.slow

FACTS = NullDevice().facts
WORKS = [
    (task.case.name, task.variant)
    for task in tasks(suite_named("quick"), Selection(suite="quick"))[::25]
    if not is_model(task.case.name)
]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packaged bundle as a checkout begins it, with the code of its probes alone."""
    begin(TREE, tmp_path / "packaged", text=packaged().text)
    monkeypatch.setattr(bundles, "PACKAGED", tmp_path / "packaged")
    packaged.cache_clear()
    yield tmp_path / "packaged"
    packaged.cache_clear()


def job_of(case: str, variant: str) -> Job:
    return Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS, variant=variant, limit_seconds=1.0)


def run_of(database: Database) -> int:
    """A run of these works and one of a model, whose kernels are left to the runner."""
    with database.transaction() as tx:
        store_device(tx, FACTS)
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=time.time())
        works = (*WORKS, ("model/tiny-llama-q4_K_M-09330859b246/tg16", "auto"))
        jobs = (
            PlannedJob(
                device=FACTS.key,
                case=case,
                mode=Mode.CORRECTNESS,
                variant=variant,
                limit_seconds=1.0,
                estimate_seconds=0.1,
            )
            for case, variant in works
        )
        store.add_jobs(tx, run.id, jobs)
    return run.id


def test_a_run_finds_all_its_code_and_little_else(database: Database, begun: Path) -> None:
    compile_kernels(database, run_of(database), [FACTS])
    here = load(begun)  # which compiles nothing
    wanted: set[str] = set()
    for case, variant in WORKS:
        with suppress(Unsupported):  # an error of missing code is another one
            launches = plan_job(here, job_of(case, variant), FACTS, checked=False).launches
            wanted |= {program.sha for program, _ in launches.passes}
    assert len(wanted) > 20
    probes = {here.entry(unit.key).sha256 for unit in PROBES}
    kept = {path.stem for path in begun.glob("*.spv")}
    assert wanted <= kept
    assert len(kept - wanted - probes) <= 4  # the canary's


def test_what_other_devices_run_is_left(database: Database, begun: Path) -> None:
    run, before = run_of(database), set(begun.glob("*.spv"))
    compile_kernels(database, run, [replace(FACTS, key="other")])
    assert len(set(begun.glob("*.spv")) - before) <= 4  # the canary's


def test_a_bundle_is_kept_with_results_once_it_is_whole(database: Database, begun: Path) -> None:
    selection = Selection(mode=Mode.CORRECTNESS, kernels=("copy",), formats=("f32",))
    store_run(database, selection, [FACTS])
    with database.reading() as tx:
        assert find_stored(tx, packaged().sha) is None
    compile_rest()
    store_run(database, selection, [FACTS])
    with database.reading() as tx:
        kept = find_stored(tx, packaged().sha)
    assert kept
    assert kept.check().sha == packaged().sha
