"""Comparisons with peers in the database: the latest of each case, of one device in one run."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from databases import Lab
from planted_peers import CASE, compare
from vkbench.job import PEERS, Mode, Outcome
from vkbench_db.database import Database, upgrade
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_detection.find import history
from vkbench_detection.peers.pairs import (
    PeerPair,
    pairs_of_case,
    pairs_of_device,
    peer_pairs,
    peers_of_device,
    uncompared_cases,
)
from vkbench_detection.peers.standings import judge, note_told, standings, untold_falls
from vkbench_detection.regress import news
from vkbench_detection.steps import detect


def asked(lab: Lab, *peers: str, of: int | None = None) -> list[PeerPair]:
    with lab.database.reading() as tx:
        return peer_pairs(tx, peers, of)


def test_both_sides_of_a_comparison_are_of_one_job(lab: Lab) -> None:
    device = lab.add_device()
    first = compare(lab, device, 4e-3, 2e-3)
    lab.now += 60
    compare(lab, device, 6e-3, 2e-3)
    compare(lab, device, 1e-3, 2e-3, peer="torch")
    numpy, torch = asked(lab)
    assert (numpy.peer, numpy.theirs, numpy.ours) == ("numpy", 6e-3, 2e-3)  # the latest
    assert (numpy.device, numpy.case_name, numpy.settings) == (device, CASE, "version=2,ours=tiled")
    assert numpy.ours_low < numpy.ours < numpy.ours_high
    assert [pair.peer for pair in asked(lab, "torch")] == ["torch"] == [torch.peer]
    assert [pair.theirs for pair in asked(lab, of=first)] == [4e-3]


def test_each_case_without_a_comparison_is_told(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 3, mode=Mode.PEER, variant="torch")
    jobs = lab.pick(device)
    for job, reason in zip(jobs, ("no torch", "no torch", "torch has no x"), strict=True):
        answer = lab.answer(job, Outcome.SKIPPED)
        lab.record(replace(answer, reason=reason))
    with lab.database.reading() as tx:
        found = uncompared_cases(tx, ["torch"])
    reasons = [("no torch", job.case) for job in jobs[:2]] + [("torch has no x", jobs[2].case)]
    assert [(each.reason, each.case_name) for each in found] == sorted(reasons)
    assert {(each.device, each.peer) for each in found} == {(device, "torch")}
    assert asked(lab) == []


def test_a_time_of_zero_is_told_and_holds_up_no_other_comparison(lab: Lab) -> None:
    device = lab.add_device()
    for each in (4e-3, 4e-3, 4e-3):
        compare(lab, device, each, 2e-3)
        lab.now += 60
    compare(lab, device, 4e-3, 0.0, peer="torch")
    judge(lab.database, lab.now)
    compare(lab, device, 3e-3, 2e-3)
    assert [each.pair.theirs for each in judge(lab.database, lab.now)] == [3e-3]
    assert [pair.peer for pair in asked(lab)] == ["numpy"]
    with lab.database.reading() as tx:
        [left] = uncompared_cases(tx)
    assert (left.peer, left.case_name) == ("torch", CASE)
    assert left.reason == "a side took less time than its clock shows"


def test_a_peer_has_series_of_its_own_and_is_never_suspected(lab: Lab) -> None:
    device = lab.add_device()
    rng = random.Random(1)
    for number in range(60):
        lab.now += 86_400.0
        slower = 1.5 if number > 40 else 1.0
        compare(
            lab, device, 4e-3 * slower * rng.gauss(1, 0.003), 2e-3 * slower * rng.gauss(1, 0.003)
        )
    found = detect(lab.database, lab.now, all_at_once=True)
    assert not found.suspected
    with lab.database.reading() as tx:
        rows = tx.execute(text("SELECT variant, metric, side FROM series ORDER BY side")).all()
        counts = tx.execute(text("SELECT count(*) FROM measurement WHERE series_id IS NOT NULL"))
        assert counts.scalar() == 120
        assert tx.execute(text("SELECT count(*) FROM change_point")).scalar() == 0
        assert history.every_series(tx) == []  # `vkbench regressions scan --all`
    assert [tuple(row) for row in rows] == [
        ("numpy", "hot", "ours"),
        ("numpy", "hot", "theirs"),
    ]


def test_what_others_timed_by_themselves_is_never_suspected(lab: Lab) -> None:
    device = lab.add_device()
    rng = random.Random(1)
    for number in range(60):
        lab.now += 86_400.0
        seconds = (6e-3 if number > 40 else 4e-3) * rng.gauss(1, 0.003)
        lab.submit_run([lab.planned(device, CASE, variant="onednn")], track=PEERS)
        [job] = lab.pick(device)
        lab.record(replace(lab.answer(job, seconds=seconds), variant="onednn"))
    assert not detect(lab.database, lab.now, all_at_once=True).suspected
    with lab.database.reading() as tx:
        counts = tx.execute(text("SELECT count(*) FROM measurement WHERE series_id IS NOT NULL"))
        assert counts.scalar() == 120
        assert tx.execute(text("SELECT count(*) FROM change_point")).scalar() == 0
        assert history.every_series(tx) == []


def test_a_case_that_our_kernel_gets_wrong_beside_a_peer_is_no_change(lab: Lab) -> None:
    device = lab.add_device()
    compare(lab, device, 4e-3, 2e-3)
    lab.submit(device, [CASE], mode=Mode.PEER, variant="numpy")
    [job] = lab.pick(device)
    lab.record(lab.answer(replace(job, mode=Mode.PERFORMANCE), Outcome.WRONG))
    assert not detect(lab.database, lab.now).suspected  # the check of the same run tells of it
    with lab.database.reading() as tx:
        assert tx.execute(text("SELECT count(*) FROM change_point")).scalar() == 0


def test_comparisons_travel(lab: Lab, tmp_path: Path) -> None:
    number = compare(lab, lab.add_device(), 4e-3, 2e-3)
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


def repeated(lab: Lab, *history: tuple[float, float]) -> str:
    """Comparisons one after the other; the device."""
    device = lab.add_device()
    for theirs, ours in history:
        lab.now += 60
        compare(lab, device, theirs, ours)
    return device


def fallen(lab: Lab, *history: tuple[float, float]) -> tuple[float | None, bool]:
    """Of comparisons one after the other, what the last one is beside those before."""
    repeated(lab, *history)
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


def test_a_side_that_is_too_noisy_yields_no_ratio_and_no_fall(lab: Lab) -> None:
    device = repeated(lab, *STEADY)
    number = compare(lab, device, 3e-3, 2e-3, spread=0.051)
    assert judge(lab.database, lab.now) == []
    with lab.database.reading() as tx:
        [found] = standings(tx, peer_pairs(tx))
        assert (found.ratio, found.has_fallen) == (None, False)
        [about] = news.of_run(tx, number).peers
        assert (about.cases, about.ratio, about.fallen) == (1, None, ())


def test_comparisons_that_were_too_noisy_are_no_history(lab: Lab) -> None:
    device = lab.add_device()
    for theirs, spread in ((4e-3, 0.01), (4e-3, 0.01), (4e-3, 0.01), (1e-3, 0.3), (3e-3, 0.01)):
        lab.now += 60
        compare(lab, device, theirs, 2e-3, spread=spread)
    with lab.database.reading() as tx:
        [found] = standings(tx, peer_pairs(tx))
    assert (found.before, found.has_fallen) == (pytest.approx(2), True)


def told(lab: Lab) -> list[int]:
    with lab.database.reading() as tx:
        return untold_falls(tx, judged_since=lab.now - 60, measured_since=lab.now - 60)


def test_a_fall_is_found_once_and_told_until_it_is_heard(lab: Lab) -> None:
    device = repeated(lab, *STEADY)
    assert judge(lab.database, lab.now) == []
    lab.now += 60
    compare(lab, device, 3e-3, 2e-3)
    [found] = judge(lab.database, lab.now)
    assert (found.pair.theirs, found.theirs_before) == (3e-3, pytest.approx(4e-3, rel=0.02))
    assert not found.is_ours_slower
    assert judge(lab.database, lab.now) == []  # it is judged
    assert told(lab) == [found.pair.job]
    with lab.database.transaction() as tx:
        note_told(tx, found.pair.job, lab.now)
    assert told(lab) == []


def test_old_comparisons_that_are_imported_are_no_news(lab: Lab) -> None:
    repeated(lab, *STEADY, (3e-3, 2e-3))
    lab.now += 30 * 86_400.0
    assert len(judge(lab.database, lab.now)) == 1
    assert told(lab) == []


def test_what_a_peer_was_compared_on_is_asked_by_device_and_case(lab: Lab) -> None:
    device, other = repeated(lab, (4e-3, 2e-3)), lab.add_device("other")
    compare(lab, device, 6e-3, 2e-3, peer="torch")
    lab.submit(device, [CASE], mode=Mode.PEER, variant="ggml")
    [job] = lab.pick(device)
    lab.record(lab.answer(job, Outcome.SKIPPED))
    with lab.database.reading() as tx:
        assert peers_of_device(tx, device) == ["numpy", "torch"]  # ggml was compared with nothing
        assert peers_of_device(tx, other) == []
        assert [each.theirs for each in pairs_of_device(tx, device, "torch")] == [6e-3]
        assert [each.peer for each in pairs_of_case(tx, device, CASE)] == ["numpy", "torch"]
        assert pairs_of_case(tx, other, CASE) == []


def test_a_summary_of_a_run_has_the_ratios_of_each_peer(lab: Lab) -> None:
    device = repeated(lab, *STEADY)
    lab.now += 60
    run = compare(lab, device, 3e-3, 2e-3)
    with lab.database.reading() as tx:
        [found] = news.of_run(tx, run).peers
    assert (found.peer, found.cases, found.fallen) == ("numpy", 1, (CASE,))
    assert found.ratio == pytest.approx(1.5)
