"""What `vkbench compare --fail-on regression` says of timings that cannot be compared."""

from __future__ import annotations

import json
from dataclasses import replace

from sqlalchemy import text

from commands import Captured, run_command
from planted_runs import Past
from vkbench.result import Result

GATE = ("--fail-on", "regression")


def timed(past: Past, seconds: float, *, spread: float = 0.01, samples: int = 8) -> Result:
    """A passed attempt whose medians are known so well."""
    result = past.done(seconds)
    timings = tuple(
        replace(timing, low=seconds * (1 - spread), high=seconds * (1 + spread), count=samples)
        for timing in result.timings
    )
    return replace(result, timings=timings)


def flag(past: Past, run: int, flag: str) -> None:
    """All timings of a run get this flag."""
    with past.database.transaction() as tx:
        tx.execute(
            text(
                "UPDATE measurement SET flag = :flag"
                " WHERE job_id IN (SELECT id FROM job WHERE run_id = :run)"
            ),
            {"flag": flag, "run": run},
        )


def test_a_gate_whose_timings_are_all_flagged_compared_nothing(
    past: Past, capsys: Captured
) -> None:
    flag(past, past.run("off", *(past.done(1e-3) for _ in range(3))), "device off")
    _, err = run_command(capsys, "compare", "before", "off", *GATE, code=7)
    assert "no timing was compared: 0 slower, 0 faster, 0 ~, 6 flagged and not counted" in err
    run_command(capsys, "compare", "before", "off")
    run_command(capsys, "compare", "before", "off", "--fail-on", "wrong")


def test_a_gate_of_one_sample_a_side_compared_nothing(past: Past, capsys: Captured) -> None:
    for label, seconds in (("one", 14.1e-6), ("other", 28.2e-6)):
        past.run(label, *[timed(past, seconds, spread=0.0, samples=1)] * 3)
    out, err = run_command(capsys, "compare", "one", "other", *GATE, "--all", "--json", code=7)
    assert "6 of too few samples" in err
    answer = json.loads(out)
    assert {(row["change"], row["p"], round(row["ratio"])) for row in answer["rows"]} == {
        ("too few", None, 2)
    }
    assert answer["rows"][0]["reason"].startswith("old: 1 sample, of no known scatter")
    assert answer["summary"]["too_few"] == 6


def test_a_gate_whose_sides_are_too_noisy_compared_nothing(past: Past, capsys: Captured) -> None:
    past.run("noisy", *[timed(past, 3e-3, spread=0.286)] * 3)
    out, err = run_command(capsys, "compare", "before", "noisy", *GATE, "--all", "--json", code=7)
    assert "6 too noisy" in err
    answer = json.loads(out)
    rows = answer["rows"]
    assert {row["change"] for row in rows} == {"too noisy"}
    assert {row["reason"] for row in rows} == {"new: known to no better than 5 %"}
    assert all(row[name] is None for row in rows for name in ("ratio", "ratio_low", "p"))
    assert answer["summary"]["geometric_mean"] is None
    text = run_command(capsys, "compare", "before", "noisy", "--all", "--markdown")[0]
    assert "Too noisy: 6" in text


def test_what_can_be_compared_decides_where_some_cannot(past: Past, capsys: Captured) -> None:
    past.run("some", past.done(1e-3), timed(past, 9e-6, spread=0.1), past.done(3e-6))
    _, err = run_command(capsys, "compare", "before", "some", *GATE)
    assert "(0 slower, 0 faster, 4 ~, 2 too noisy)" in err
    past.run("slow", past.done(2e-3), timed(past, 9e-6, spread=0.1), past.done(3e-6))
    run_command(capsys, "compare", "before", "slow", *GATE, code=1)


def test_a_wrong_result_or_a_failure_is_graver_than_flags(past: Past, capsys: Captured) -> None:
    run = past.run("wrong", past.wrong("NMSE"), past.done(2e-6), past.done(3e-6))
    flag(past, run, "throttled")
    run_command(capsys, "compare", "before", "wrong", *GATE, code=3)
