"""Baselines are pinned, listed and forgotten, and stand for runs in comparisons."""

from __future__ import annotations

import csv
import io
import json

import pytest

from commands import Captured, run_command

pytestmark = pytest.mark.usefixtures("filled")


def test_a_baseline_from_first_to_last(capsys: Captured) -> None:
    assert (
        "release is run" in run_command(capsys, "baseline", "set", "release", "--run", "before")[0]
    )
    run_command(capsys, "baseline", "set", "autumn", "--date", "2020-11-01")
    rows = json.loads(run_command(capsys, "baseline", "ls", "--json")[0])["rows"]
    assert {row["name"]: row["kind"] for row in rows} == {"release": "run", "autumn": "date"}
    assert next(row["value"] for row in rows if row["name"] == "autumn") == "2020-11-01"
    assert (
        len(list(csv.DictReader(io.StringIO(run_command(capsys, "baseline", "ls", "--csv")[0]))))
        == 2
    )
    out, err = run_command(capsys, "compare", "release", "last", "--fail-on", "regression", code=3)
    assert "copy/f32/n4096" in out
    assert err.startswith("baseline release: run 1 (before) → run 2 (after)")
    assert "no timed case in common" in run_command(capsys, "compare", "autumn", "last", code=7)[1]
    assert "is deleted" in run_command(capsys, "baseline", "rm", "release")[0]
    assert "unknown run or baseline" in run_command(capsys, "compare", "release", "last", code=2)[1]


def test_a_name_that_is_taken_means_the_new_one(capsys: Captured) -> None:
    run_command(capsys, "baseline", "set", "x", "--run", "1")
    run_command(capsys, "baseline", "set", "x", "--run", "2")
    assert run_command(capsys, "compare", "x", "2")[1].startswith("baseline x: run 2")
    assert len(json.loads(run_command(capsys, "baseline", "ls", "--json")[0])["rows"]) == 1


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["set", "x"], 2, "one of --run RUN, --bundle SHA, --build NAME, --driver NAME and"),
        (["set", "x", "--run", "1", "--date", "2026-01-01"], 2, "one of"),
        (["set", "x", "--run", "9"], 2, "unknown run '9'"),
        (["set", "x", "--bundle", "zz"], 2, "no SHA-256"),
        (["set", "x", "--date", "31.12."], 2, "no date"),
        (["set", "x", "--build", "b8121"], 2, "unknown build 'b8121'"),
        (["set", "x", "--driver", "mesa"], 2, "unknown driver 'mesa'"),
        (["set", "7", "--run", "1"], 2, "no name for a baseline"),
        (["set", "run:1", "--run", "1"], 2, "no name for a baseline"),
        (["rm", "x"], 2, "unknown baseline 'x'"),
        (["set"], 2, "NAME"),
        (["ls", "--database", "/nonexistent/x.db"], 8, "vkbench db upgrade"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told(words: list[str], code: int, hint: str, capsys: Captured) -> None:
    out, err = run_command(capsys, "baseline", *words, code=code)
    assert out == ""
    assert hint in err
