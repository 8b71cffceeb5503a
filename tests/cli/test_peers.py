"""Comparisons with peers, as a user asks for them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from commands import Captured, read_rows, run_command
from planted_runs import CASES, DEVICE, Past, timing
from vkbench.job import Mode, Outcome, PlannedJob
from vkbench.result import Side
from vkbench.run import RunWords
from vkbench_cli import main as cli
from vkbench_db.work import store
from vkbench_detection.peers.pairs import Uncompared
from vkbench_tables.peers import reasons

NOW = 1_790_000_000.0


@pytest.fixture
def compared(past: Past) -> Past:
    """A run that compared two of three cases with numpy."""
    jobs = [
        PlannedJob(device=DEVICE.key, case=case, mode=Mode.PEER, variant="numpy") for case in CASES
    ]
    with past.database.transaction() as tx:
        run = store.create_run(
            tx, mode=Mode.BOTH, selection={}, now=NOW, words=RunWords(label="peers")
        )
        store.add_jobs(tx, run.id, jobs)
        picked = [pick.job for pick in store.pick(tx, DEVICE.key, 3, NOW)]
        done = past.done(1.0)
        for job, theirs in zip(picked, (2e-3, 0.5e-3, None), strict=True):
            result = replace(done, job=job.id, token=job.token, case=job.case, variant="numpy")
            if theirs:
                timings = (timing("hot", theirs, side=Side.THEIRS), timing("hot", 1e-3))
                result = replace(result, timings=timings, settings="version=2,ours=portable")
            else:
                skipped = {"outcome": Outcome.SKIPPED, "reason": "numpy has no it", "verdict": None}
                result = replace(result, timings=(), **skipped)  # type: ignore[arg-type]
            store.record(tx, [result], NOW)
    return past


def test_a_side_that_is_too_noisy_has_no_ratio(past: Past, capsys: Captured) -> None:
    job = PlannedJob(device=DEVICE.key, case=CASES[0], mode=Mode.PEER, variant="numpy")
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=NOW)
        store.add_jobs(tx, run.id, [job])
        [picked] = store.pick(tx, DEVICE.key, 1, NOW)
        timings = (timing("hot", 14.46e-3, 0.286, Side.THEIRS), timing("hot", 2.477e-3))
        done = replace(past.done(1.0), job=picked.job.id, token=picked.job.token, case=CASES[0])
        store.record(tx, [replace(done, variant="numpy", timings=timings)], NOW)
    out, err = run_command(capsys, "compare", "--peer", "numpy")
    assert "too noisy" in out
    assert "5.84" not in out
    assert "1 comparison too noisy for a ratio" in " ".join(err.split())
    [row] = read_rows(capsys, "compare", "--peer", "numpy")
    assert (row["ratio"], row["change"]) == (None, "too noisy")


def read_errors(capsys: Captured) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_ours_theirs_and_the_ratio(compared: Past, capsys: Captured) -> None:
    out, err = run_command(capsys, "compare", "--peer", "numpy", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["case"] for row in rows] == list(CASES)
    assert [float(row["ratio"]) for row in rows[:2]] == [pytest.approx(2), pytest.approx(0.5)]
    assert (rows[2]["ratio"], rows[2]["reason"]) == ("", "numpy has no it")
    assert rows[2]["device"] == rows[0]["device"] == DEVICE.key
    low, high = float(rows[0]["ratio_low"]), float(rows[0]["ratio_high"])
    assert 1.9 < low < 2 < high < 2.1
    words = " ".join(err.split())
    assert f"1 case not compared: numpy has no it ({CASES[2]})" in words
    assert "Ours: launches back to back" in words
    assert "numpy: calls back to back" in words


def test_people_see_the_mean_too(compared: Past, capsys: Captured) -> None:
    out = run_command(capsys, "compare", "--peer", "numpy", "peers")[0]
    assert "peer: numpy" in out
    assert "geomean of 2" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--peer", "torhc"], "did you mean 'torch'?"),
        (["--peer", "numpy", "1", "2"], "leave out NEW"),
        (
            ["--peer", "torch"],
            "no comparison with torch: `vkbench run --mode performance --peer torch`",
        ),
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
    assert complaint in read_errors(capsys)


def test_a_ratio_that_fell_fails_on_regression(compared: Past, capsys: Captured) -> None:
    words = ["compare", "--peer", "numpy", "--fail-on", "regression"]
    assert cli.main(words) == 0  # nothing to hold it against
    for theirs in (2e-3, 2e-3, 2e-3, 1.2e-3):
        add(compared, theirs)
    out, err = run_command(capsys, *words, code=1)
    assert f"{CASES[0]} fell behind numpy on Planted 9000" in " ".join(err.split())
    assert "fell" in out


def add(past: Past, theirs: float) -> None:
    """One more comparison of the first case."""
    planned = PlannedJob(device=DEVICE.key, case=CASES[0], mode=Mode.PEER, variant="numpy")
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=NOW + 60)
        store.add_jobs(tx, run.id, [planned])
        [picked] = store.pick(tx, DEVICE.key, 1, NOW)
        ids = {"job": picked.job.id, "token": picked.job.token, "variant": "numpy"}
        timings = (timing("hot", theirs, side=Side.THEIRS), timing("hot", 1e-3))
        done = replace(past.done(1.0), timings=timings, **ids)  # type: ignore[arg-type]
        store.record(tx, [done], NOW + 60)


def test_two_runs_are_compared_without_their_peers(compared: Past, capsys: Captured) -> None:
    assert cli.main(["compare", "before", "peers"]) != 0
    assert "no timed case in common" in read_errors(capsys)


def test_ggml_s_file_is_imported_once(past: Past, capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "ops.txt"
    file.write_text(
        "Backend 1/1: Vulkan0\n  Device description: Planted 9000\n\n"
        "  ARGMAX(type=f32,ne=[32000,512,1,1]):    9000 runs -   110.57 us/run -  64000 kB/run\n"
        "  CPY(type_src=f32,type_dst=f16,ne=[4,4,1,1]):   9000 runs -   4.01 us/run - 1 kB/run\n"
    )
    out, err = run_command(capsys, "import", "--ggml", str(file))
    assert "1 job new" in out
    assert "left out 1 test of CPY at all" in " ".join(err.split())
    assert "0 jobs new, 0 went on, 1 known" in run_command(capsys, "import", "--ggml", str(file))[0]
    [row] = csv.DictReader(
        io.StringIO(run_command(capsys, "results", "--kernel", "argmax", "--csv")[0])
    )
    assert (row["variant"], row["device_name"]) == ("ggml", "Planted 9000")
    assert float(row["hot_seconds"]) == pytest.approx(110.57e-6)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give one file: of an export, or by --llama-bench, --ggml"),
        (["--ggml", "a", "--llama-bench", "b"], "give one file"),
        (["--ggml", "a", "--model", "m"], "--model is of --llama-bench"),
        (["--ggml", "a", "--peer", "x"], "--peer is of --google-benchmark and --nvbench"),
        (["--nvbench", "a", "--peer", "portable"], "is the name of a code path"),
        (["--google-benchmark", "none.json"], "cannot read none.json"),
        (["--ggml", "none.sql"], "cannot read none.sql"),
    ],
)
def test_what_cannot_be_imported(
    past: Past, capsys: Captured, words: list[str], complaint: str
) -> None:
    assert cli.main(["import", *words]) == 2
    assert complaint in read_errors(capsys)


def test_a_reason_names_two_cases_and_counts_the_others() -> None:
    left = [
        Uncompared(
            host="alpha",
            device="d",
            device_name="GPU",
            case_name=f"exp2/f32/{number}",
            peer="ggml",
            reason="ggml has no exp2",
            run=1,
            job=number,
            finished_at=NOW,
        )
        for number in range(5)
    ]
    assert reasons(left) == [
        "5 cases not compared: ggml has no exp2 (exp2/f32/0, exp2/f32/1 and 3 more)"
    ]
