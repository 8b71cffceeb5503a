"""Comparisons with peers, as a user asks for them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from planted_runs import CASES, DEVICE, Past, timing
from vkbench.job import Mode, Outcome, PlannedJob
from vkbench_cli import main as cli
from vkbench_db.work import store

Captured = pytest.CaptureFixture[str]
NOW = 1_790_000_000.0


@pytest.fixture
def compared(past: Past) -> Past:
    """A run that compared two of three cases with numpy."""
    jobs = [
        PlannedJob(device=DEVICE.key, case=case, mode=Mode.PEER, variant="numpy") for case in CASES
    ]
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=NOW, label="peers")
        store.add_jobs(tx, run.id, jobs)
        picked = [each.job for each in store.pick(tx, DEVICE.key, 3, NOW)]
        done = past.done(1.0)
        for job, theirs in zip(picked, (2e-3, 0.5e-3, None), strict=True):
            result = replace(done, job=job.id, token=job.token, case=job.case, variant="numpy")
            if theirs:
                timings = (timing("hot", theirs), timing("ours", 1e-3))
                result = replace(result, timings=timings, settings="version=2,ours=portable")
            else:
                skipped = {"outcome": Outcome.SKIPPED, "reason": "numpy has no it", "verdict": None}
                result = replace(result, timings=(), **skipped)  # type: ignore[arg-type]
            store.record(tx, [result], NOW)
    return past


def said(capsys: Captured) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_ours_theirs_and_the_ratio(compared: Past, capsys: Captured) -> None:
    assert cli.main(["compare", "--peer", "numpy", "--csv"]) == 0
    found = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(found.out)))
    assert [row["case"] for row in rows] == list(CASES[:2])
    assert [float(row["ratio"]) for row in rows] == [pytest.approx(2), pytest.approx(0.5)]
    low, high = float(rows[0]["ratio_low"]), float(rows[0]["ratio_high"])
    assert 1.9 < low < 2 < high < 2.1
    words = " ".join(found.err.split())
    assert "1 case not compared: numpy has no it" in words
    assert "Ours: launches back to back" in words
    assert "numpy: calls back to back" in words


def test_people_see_the_mean_too(compared: Past, capsys: Captured) -> None:
    assert cli.main(["compare", "--peer", "numpy", "peers"]) == 0
    out = capsys.readouterr().out
    assert "peer: numpy" in out
    assert "geomean of 2" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--peer", "torhc"], "did you mean 'torch'?"),
        (["--peer", "numpy", "1", "2"], "leave out NEW"),
        (["--peer", "torch"], "there is no comparison with torch"),
        (["--peer", "numpy", "before"], "run 1 has no comparison with numpy"),
        (["1"], "give OLD and NEW, or --peer NAME"),
        (["--peer", "numpy", "--markdown"], "leave out NEW and the rest"),
        (["--peer", "numpy", "--fail-on", "wrong"], "leave out NEW and the rest"),
    ],
)
def test_what_cannot_be_compared(
    compared: Past, capsys: Captured, words: list[str], complaint: str
) -> None:
    assert cli.main(["compare", *words]) != 0
    assert complaint in said(capsys)


def test_two_runs_are_compared_without_their_peers(compared: Past, capsys: Captured) -> None:
    assert cli.main(["compare", "before", "peers"]) != 0
    assert "no timed case in common" in said(capsys)
