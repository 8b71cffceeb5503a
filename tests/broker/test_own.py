"""Kernels of users through the queue: their bundles reach a worker that knows nothing of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import Lab, until
from planted_own import CASE, NAME, TIMED, built_own, slower
from vkbench.device import DeviceFacts
from vkbench_db.ask import queries
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import Bisection, Candidate
from vkbench_scheduler.bundles import keep
from vkbench_scheduler.planning.own import cases_of
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit
from vkbench_shaders.own.building import build


def devices(lab: Lab) -> list[DeviceFacts]:
    with lab.database.reading() as tx:
        return [row.facts for row in queries.devices(tx)]


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("lavapipe")
def test_an_own_kernel_goes_through_the_queue(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    """Two bundles of one name are judged by the reference of their own, without a restart."""
    lab = make_lab(runner="vkbench_worker.runner.main")
    right = built_own(tmp_path)
    source = tmp_path / "rms_quant.py"
    source.write_text(source.read_text().replace("/ 127", "/ 100"))
    other = build(tmp_path / "rms_quant.toml", "somebody")
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
    until(lambda: devices(lab), "no device announces itself", 60)
    runs = []
    for built in (right, other):
        selection = Selection(own=cases_of(built.kernel), measure_seconds=0.05)
        made = submit(lab.database, selection, devices(lab), bundle=built.bundle)
        runs.append(made.run.id)
    lab.await_end(*runs, seconds=120)
    lab.check(*runs)
    assert [dict(lab.counts(run)) for run in runs] == [{"passed": 4}, {"wrong": 4}]
    with lab.database.reading() as tx:
        cases = [row.case_name for row in queries.jobs(tx, run=runs[0])]
    assert cases.count(CASE) == 1
    assert cases.count(TIMED) == 2
    assert all(case.startswith(f"{NAME}/") for case in cases)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("lavapipe")
def test_the_fleet_finds_a_slow_version(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    """Of three versions the second only launches otherwise, and the third is slow."""
    lab = make_lab(runner="vkbench_worker.runner.main")
    built = [built_own(tmp_path)]
    declaration = tmp_path / "rms_quant.toml"
    declaration.write_text(declaration.read_text().replace('groups = ["m"]', 'groups = ["m", 2]'))
    built.append(build(declaration, "somebody"))
    slower(declaration)
    built.append(build(declaration, "somebody"))
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
    until(lambda: devices(lab), "no device announces itself", 60)
    with lab.database.transaction() as tx:
        for each in built:
            keep(tx, each.bundle, 1.0)
        number = bisections.create(
            tx,
            bisections.NewBisection(
                devices=[devices(lab)[0].key],
                case=TIMED,
                variant="auto",
                metric="hot",
                measure_seconds=0.05,
                candidates=[
                    Candidate(sha=each.bundle.sha, label=label)
                    for each, label in zip(built, ("first", "wider", "slow"), strict=True)
                ],
                user="",
            ),
            now=time.time(),
        )
    until(lambda: found(lab, number).state != bisections.RUNNING, "it does not end", 120)
    ended = found(lab, number)
    assert ended.state == bisections.FOUND, ended.note
    assert ended.note.startswith("slow is the first bad one")


def found(lab: Lab, number: int) -> Bisection:
    with lab.database.reading() as tx:
        return bisections.find(tx, number)
