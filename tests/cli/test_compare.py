"""What `vkbench compare` shows, what programs get of it, and when it ends with an error."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from sqlalchemy import text

from vkbench_cli import main as cli

Captured = pytest.CaptureFixture[str]


def said(capsys: Captured, *words: str, code: int = 0) -> tuple[str, str]:
    """What a command prints on stdout and stderr."""
    found = cli.main(["compare", *words])
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


@pytest.mark.usefixtures("filled")
def test_only_what_changed_is_shown(capsys: Captured) -> None:
    out, err = said(capsys, "before", "after")
    assert "copy/f32/n4096" in out
    assert "mul_mat_vec/q8_0" in out
    assert "mul_mat_vec/q4_0" not in out
    assert "run 1 (before) → run 2 (after): 4 timings in common (2 slower, 0 faster, 2 ~)" in err
    assert "1 verdicts changed (1 wrong, 0 fixed)" in err
    assert "mul_mat_vec/q4_0" in said(capsys, "before", "after", "--all")[0]
    assert said(capsys, "before", "after", "--changed")[0] == out


@pytest.mark.usefixtures("filled")
def test_the_other_way_round_it_is_faster_and_fixed(capsys: Captured) -> None:
    out, err = said(capsys, "2", "1", "--fail-on", "regression")
    assert "faster" in out
    assert "0 slower, 2 faster" in err
    assert "1 verdicts changed (0 wrong, 1 fixed)" in err


@pytest.mark.usefixtures("filled")
def test_programs_get_intervals_and_a_summary(capsys: Captured) -> None:
    found = json.loads(said(capsys, "1", "2", "--json", "--metric", "HOT")[0])
    wrong, copy = found["rows"]
    assert (wrong["new_verdict"], wrong["reason"]) == ("wrong", "NMSE 0.5 is over 1e-10")
    assert copy["ratio"] == pytest.approx(2)
    assert (copy["change"], copy["moved"]) == ("slower", "nothing")
    assert copy["ratio_low"] < 2 < copy["ratio_high"]
    assert 0 <= copy["p"] < 1e-6
    assert (copy["old_seconds"], copy["new_results"]) == (pytest.approx(1e-3), 1)
    figures = found["summary"]
    assert (figures["pairs"], figures["slower"], figures["wrong"]) == (2, 1, 1)
    assert figures["geometric_mean_low"] <= figures["geometric_mean"] == pytest.approx(2**0.5)
    assert figures["devices"] == {}
    rows = list(csv.DictReader(io.StringIO(said(capsys, "1", "2", "--csv", "--all")[0])))
    assert [row["change"] for row in rows] == ["", "slower", "slower", "~", "~"]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["1", "2", "--fail-on", "regression"], 3),
        (["1", "2", "--fail-on", "WRONG"], 3),
        (["1", "2", "--fail-on", "never"], 0),
        (["1", "1", "--fail-on", "regression"], 0),
        (["2", "1", "--fail-on", "wrong"], 0),
    ],
)
def test_exit_codes(words: list[str], code: int, capsys: Captured) -> None:
    said(capsys, *words, code=code)


def test_slower_alone_is_a_regression(past, capsys: Captured) -> None:
    past.run("slow", *map(past.done, (1.5e-3, 2e-6, 3e-6)))
    said(capsys, "before", "slow", "--fail-on", "regression", code=1)
    said(capsys, "before", "slow", "--fail-on", "wrong", code=0)


def test_markdown_is_whole_and_capped(past, capsys: Captured) -> None:
    out = said(capsys, "1", "2", "--markdown")[0]
    assert out.startswith("### 1 wrong, 2 slower\n")
    assert "**Verdicts changed: 1**" in out
    assert "| copy/f32/n4096 |" in out
    assert "NMSE 0.5 is over 1e-10" in out
    nothing = said(capsys, "1", "1", "--markdown")[0]
    assert nothing.startswith("### No change\n")
    assert "|" not in nothing
    rude = past.wrong("| </table> `rm` @all\n# heading")
    past.run("rude", rude, past.done(2e-6), past.done(3e-6))
    out = said(capsys, "before", "rude", "--markdown")[0]
    assert "\\| \\</table\\> \\`rm\\` @\u200ball #\u200b heading" in out


def test_the_canary_of_the_device_stands_beside_it(past, capsys: Captured) -> None:
    assert "canary" not in said(capsys, "1", "2")[1]
    add = (
        "INSERT INTO canary (device_id, environment, measured_at, seconds, is_off) SELECT 1, 'e',"
        " finished_at, {}, false FROM job WHERE run_id = {} AND position = 0"
    )
    with past.database.transaction() as tx:
        tx.execute(text("UPDATE job SET finished_at = '2026-01-01 00:00:00.0' WHERE run_id = 1"))
        tx.execute(text(add.format(0.001, 1)))
        tx.execute(text(add.format(0.0015, 2)))
    out, err = said(capsys, "1", "2", "--json")
    assert "canary of Planted 9000 (0123456789ab): 1.5000 of what it was" in err
    assert json.loads(out)["summary"]["canaries"] == {"0123456789ab": {"ratio": 1.5, "count": 1}}
    assert "- canary of Planted 9000" in said(capsys, "1", "2", "--markdown")[0]


@pytest.mark.usefixtures("filled")
def test_orders(capsys: Captured) -> None:
    def cases(*words: str) -> list[str]:
        rows = json.loads(said(capsys, "2", "1", "--all", "--json", *words)[0])["rows"]
        return [row["case"].partition("/")[0] for row in rows if row["ratio"]]

    assert cases() == ["copy", "copy", "mul_mat_vec", "mul_mat_vec"]
    assert cases("--sort", "p")[0] == "copy"
    assert cases("--sort", "case") == ["copy", "copy", "mul_mat_vec", "mul_mat_vec"]


def test_unlike_clocks_are_refused_unless_told(past, capsys: Captured) -> None:
    locked = replace(past.environment, clock_policy="locked")
    past.add_device(past.device, locked)
    past.run("locked", *[replace(past.done(1e-3), environment=locked.hash)] * 3)
    out, err = said(capsys, "before", "locked", code=2)
    assert out == ""
    assert "0123456789ab default and now locked" in err
    assert "--mix" in err
    assert "of new/old" in said(capsys, "before", "locked", "--mix")[1]


def test_devices_are_held_against_their_roofs(past, capsys: Captured) -> None:
    other = replace(past.device, key="ba9876543210", name="Other 1", uuid="1" * 32)
    past.add_device(other)
    past.run("other", *map(past.done, (5e-3, 2e-6, 3e-6)), device=other.key)
    assert "vkbench calibrate" in said(capsys, "device:9000", "device:Other")[1]
    with past.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET roof_fraction = 0.5"))
        tx.execute(text("UPDATE measurement SET roof_fraction = 0.2 WHERE seconds > 4e-3"))
    rows = json.loads(said(capsys, "device:9000", "device:Other", "--json")[0])["rows"]
    copy = next(row for row in rows if row["metric"] == "hot")
    assert (copy["old_roof_fraction"], copy["new_roof_fraction"]) == (0.5, 0.2)
    assert (copy["ratio"], copy["change"]) == (pytest.approx(2.5), "slower")
    assert copy["old_seconds"] is None


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["1", "99"], 2, "unknown run or baseline '99'"),
        (["befor", "1"], 2, "did you mean 'before'"),
        (["1", "bundle:xyz"], 2, "no SHA-256"),
        (["1", "bundle:abcdef"], 2, "unknown bundle 'abcdef'"),
        (["1", "bundle:"], 2, "no SHA-256"),
        (["1", "driver:9.9"], 2, "unknown driver '9.9'"),
        (["1", "driver:planed"], 2, "did you mean 'planted'"),
        (["1", "date:tomorrow"], 2, "no date such as 2026-11-01"),
        (["1", "date:9999-12-31"], 2, "no date"),
        (["1", "baseline:x"], 2, "unknown baseline 'x'"),
        (["1", "device:nothing"], 2, "unknown device 'nothing'"),
        (["1", "device:planted"], 2, "compared with a device"),
        (["1", "date:2001-01-01"], 7, "no timed case in common"),
        (["1", "2", "--metric", "warm"], 2, "unknown metric 'warm'"),
        (["1", "2", "--sort", "size"], 2, "size"),
        (["1", "2", "--fail-on", "rain"], 2, "rain"),
        (["1", "2", "--json", "--markdown"], 2, "only one of"),
        (["1"], 2, "NEW"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told(words: list[str], code: int, hint: str, capsys: Captured) -> None:
    out, err = said(capsys, *words, code=code)
    assert out == ""
    assert hint in err
