"""Comparisons with peers in the database: the latest of each case, of one device in one run."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from databases import Lab
from planted_runs import timing
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_db.ask.peers import PeerPair, peer_pairs, uncompared
from vkbench_db.database import Database, upgrade
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_detection.compare.peer_ratios import standings
from vkbench_detection.steps import detect

CASE = "mul_mat_vec/q4_0/m1_n1_k256"


def compared(lab: Lab, job: Job, theirs: float, ours: float) -> Result:
    """What a worker says of a job of a peer."""
    answer = lab.answer(replace(job, mode=Mode.PERFORMANCE))
    timings = (timing("hot", theirs), timing("ours", ours))
    return replace(answer, variant=job.variant, settings="version=2,ours=tiled", timings=timings)


def run(lab: Lab, device: str, theirs: float, ours: float, peer: str = "numpy") -> int:
    number = lab.submit(device, [CASE], mode=Mode.PEER, variant=peer)
    [job] = lab.pick(device)
    lab.record(compared(lab, job, theirs, ours))
    return number


def asked(lab: Lab, *peers: str, of: int | None = None) -> list[PeerPair]:
    with lab.database.reading() as tx:
        return peer_pairs(tx, peers, of)


def test_both_sides_of_a_comparison_are_of_one_job(lab: Lab) -> None:
    device = lab.add_device()
    first = run(lab, device, 4e-3, 2e-3)
    lab.now += 60
    run(lab, device, 6e-3, 2e-3)
    run(lab, device, 1e-3, 2e-3, peer="torch")
    numpy, torch = asked(lab)
    assert (numpy.peer, numpy.theirs, numpy.ours) == ("numpy", 6e-3, 2e-3)  # the latest
    assert (numpy.device, numpy.case_name, numpy.settings) == (device, CASE, "version=2,ours=tiled")
    assert numpy.ours_low < numpy.ours < numpy.ours_high
    assert [pair.peer for pair in asked(lab, "torch")] == ["torch"] == [torch.peer]
    assert [pair.theirs for pair in asked(lab, of=first)] == [4e-3]


def test_each_reason_for_no_comparison_is_counted(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 3, mode=Mode.PEER, variant="torch")
    jobs = lab.pick(device)
    for job, reason in zip(jobs, ("no torch", "no torch", "torch has no x"), strict=True):
        answer = lab.answer(job, Outcome.SKIPPED)
        lab.record(replace(answer, reason=reason))
    with lab.database.reading() as tx:
        found = uncompared(tx, ["torch"])
    assert [(each.reason, each.count) for each in found] == [("no torch", 2), ("torch has no x", 1)]
    assert asked(lab) == []


def test_a_peer_has_series_of_its_own_and_is_never_suspected(lab: Lab) -> None:
    device = lab.add_device()
    rng = random.Random(1)
    for number in range(60):
        lab.now += 86_400.0
        slower = 1.5 if number > 40 else 1.0
        run(lab, device, 4e-3 * slower * rng.gauss(1, 0.003), 2e-3 * slower * rng.gauss(1, 0.003))
    found = detect(lab.database, lab.now, all_at_once=True)
    assert not found.suspected
    with lab.database.reading() as tx:
        rows = tx.execute(text("SELECT variant, metric FROM series ORDER BY metric")).all()
        counts = tx.execute(text("SELECT count(*) FROM measurement WHERE series_id IS NOT NULL"))
        assert counts.scalar() == 120
        assert tx.execute(text("SELECT count(*) FROM change_point")).scalar() == 0
    assert [tuple(row) for row in rows] == [("numpy", "hot"), ("numpy", "ours")]


def test_a_case_that_our_kernel_gets_wrong_beside_a_peer_is_no_change(lab: Lab) -> None:
    device = lab.add_device()
    run(lab, device, 4e-3, 2e-3)
    lab.submit(device, [CASE], mode=Mode.PEER, variant="numpy")
    [job] = lab.pick(device)
    lab.record(lab.answer(replace(job, mode=Mode.PERFORMANCE), Outcome.WRONG))
    assert not detect(lab.database, lab.now).suspected  # the check of the same run tells of it
    with lab.database.reading() as tx:
        assert tx.execute(text("SELECT count(*) FROM change_point")).scalar() == 0


def test_comparisons_travel(lab: Lab, tmp_path: Path) -> None:
    number = run(lab, lab.add_device(), 4e-3, 2e-3)
    with lab.database.reading() as tx:
        lines = list(export_run(tx, number))
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    upgrade(url)
    with Database.open(url) as elsewhere:
        with elsewhere.transaction() as tx:
            import_lines(tx, lines, lab.now)
        with elsewhere.reading() as tx:
            [pair] = peer_pairs(tx)
    assert (pair.theirs, pair.ours, pair.settings) == (4e-3, 2e-3, "version=2,ours=tiled")


def fallen(lab: Lab, *history: tuple[float, float]) -> tuple[float | None, bool]:
    """Of comparisons one after the other, what the last one is beside those before."""
    device = lab.add_device()
    for theirs, ours in history:
        lab.now += 60
        run(lab, device, theirs, ours)
    with lab.database.reading() as tx:
        [found] = standings(tx, peer_pairs(tx))
    return found.before, found.has_fallen


STEADY = [(4e-3, 2e-3), (4.04e-3, 2e-3), (3.96e-3, 2e-3), (4e-3, 2.02e-3)]


def test_a_peer_that_became_faster_has_our_ratio_fall(lab: Lab) -> None:
    before, has_fallen = fallen(lab, *STEADY, (3e-3, 2e-3))
    assert before == pytest.approx(2, rel=0.02)
    assert has_fallen


@pytest.mark.parametrize(
    "last", [(4e-3, 2e-3), (3.9e-3, 2e-3), (8e-3, 2e-3), (2e-3, 1e-3)], ids=str
)
def test_what_scatters_or_rises_has_not_fallen(lab: Lab, last: tuple[float, float]) -> None:
    assert not fallen(lab, *STEADY, last)[1]


def test_few_comparisons_say_nothing(lab: Lab) -> None:
    assert fallen(lab, *STEADY[:2], (1e-3, 2e-3)) == (None, False)
