"""What `vkbench compare` shows, what programs get of it, and when it ends with an error."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from commands import Captured, run_command
from planted_runs import Past, timing
from terminals import terminal
from vkbench.device import device_key
from vkbench.result import Statistic
from vkbench_cli import main as cli
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import export_run


@pytest.mark.usefixtures("filled")
def test_only_what_changed_is_shown(capsys: Captured) -> None:
    out, err = run_command(capsys, "compare", "before", "after")
    assert "copy/f32/n4096" in out
    assert "mul_mat_vec/q8_0" in out
    assert "mul_mat_vec/q4_0" not in out
    assert "run 1 (before) → run 2 (after): 4 timings in common (2 slower, 0 faster, 2 ~)" in err
    assert "1 verdict changed (1 wrong, 0 fixed)" in err
    assert "mul_mat_vec/q4_0" in run_command(capsys, "compare", "before", "after", "--all")[0]
    assert run_command(capsys, "compare", "before", "after", "--changed")[0] == out


@pytest.mark.usefixtures("filled")
def test_the_other_way_round_it_is_faster_and_fixed(capsys: Captured) -> None:
    out, err = run_command(capsys, "compare", "2", "1", "--fail-on", "regression")
    assert "-50.0%" in out
    assert "wrong → passed" in out
    assert "0 slower, 2 faster" in err
    assert "1 verdict changed (0 wrong, 1 fixed)" in err


@pytest.mark.usefixtures("filled")
def test_people_see_the_columns_of_benchstat(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(80, monkeypatch) as screen:
        assert cli.main(["compare", "before", "after", "--all", "--metric", "hot"]) == 0
    _, _, *lines = (" ".join(line.split()) for line in screen.text.splitlines())
    assert "case metric old us ± new us ± delta p n" in lines
    assert "copy/f32/n4096 hot 1000 1.0% 2000 1.0% +100.0% <0.001 1" in lines
    assert any(line.endswith(" ~ 1.000 1") for line in lines)
    assert lines[-1] == "geomean of 2 44.72 63.25 +41.4%"
    row = json.loads(run_command(capsys, "compare", "before", "after", "--json")[0])["rows"][-1]
    assert not {"delta", "n"} & set(row)  # a program reads ratio, old_results and new_results


@pytest.mark.usefixtures("filled")
def test_programs_get_intervals_and_a_summary(capsys: Captured) -> None:
    answer = json.loads(run_command(capsys, "compare", "1", "2", "--json", "--metric", "HOT")[0])
    wrong, copy = answer["rows"]
    assert (wrong["new_verdict"], wrong["reason"]) == ("wrong", "NMSE 0.5 is over 1e-10")
    assert copy["ratio"] == pytest.approx(2)
    assert (copy["change"], copy["moved"]) == ("slower", "nothing")
    assert copy["ratio_low"] < 2 < copy["ratio_high"]
    assert 0 <= copy["p"] < 1e-5  # of a device of which nothing is known yet
    assert (copy["old_seconds"], copy["new_results"]) == (pytest.approx(1e-3), 1)
    figures = answer["summary"]
    assert (figures["pairs"], figures["slower"], figures["wrong"]) == (2, 1, 1)
    assert figures["geometric_mean"] == pytest.approx(2**0.5)
    assert figures["geometric_mean_low"] is None
    assert figures["geometric_mean_why"].startswith("no interval: fewer than 3 other runs")
    assert figures["devices"] == {}
    rows = list(
        csv.DictReader(io.StringIO(run_command(capsys, "compare", "1", "2", "--csv", "--all")[0]))
    )
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
    run_command(capsys, "compare", *words, code=code)


def test_slower_alone_is_a_regression(past: Past, capsys: Captured) -> None:
    past.run("slow", *map(past.done, (1.5e-3, 2e-6, 3e-6)))
    run_command(capsys, "compare", "before", "slow", "--fail-on", "regression", code=1)
    run_command(capsys, "compare", "before", "slow", "--fail-on", "wrong", code=0)


def test_a_setting_of_the_host_that_moved_is_named(past: Past, capsys: Captured) -> None:
    capped = [
        replace(past.environment, extra={"power_cap": cap, "layers": "none"})
        for cap in ("300 W", "250 W")
    ]
    for label, environment, seconds in zip(("free", "capped"), capped, (1e-3, 2e-3), strict=True):
        past.add_device(past.device, environment)
        ends = [replace(past.done(time), environment=environment.hash) for time in (seconds, 1, 1)]
        past.run(label, *ends)
    answer = json.loads(run_command(capsys, "compare", "free", "capped", "--json")[0])
    assert {row["moved"] for row in answer["rows"]} == {"power cap 300 W → 250 W"}


def test_statistics_that_changed_are_shown_apart(past: Past, capsys: Captured) -> None:
    for label, registers, joules in (("old", 32, 0.25), ("new", 64, 0.27)):
        told = (
            Statistic(name="registers", value=registers),
            Statistic(name="energy", value=joules, unit="J", spread=0.02),
            Statistic(name="spills", value=None, note="not told"),
        )
        compiled = replace(past.done(1e-3), timings=(timing("compile", 0.1),), statistics=told)
        past.run(label, compiled, compiled, compiled)
    _, err = run_command(capsys, "compare", "old", "new")
    assert "3 statistics of drivers changed: --statistics shows them" in err
    rows = json.loads(run_command(capsys, "compare", "old", "new", "--statistics", "--json")[0])
    assert [(row["name"], row["old"], row["new"], row["ratio"]) for row in rows["rows"]] == [
        ("registers", 32, 64, 2)
    ] * 3
    out, err = run_command(capsys, "compare", "old", "old", "--statistics")
    assert (out, "no statistic of a driver changed" in err) == ("", True)


def test_what_failed_or_was_skipped_is_no_silence(past: Past, capsys: Captured) -> None:
    run = past.run("crashed", *map(past.done, (1e-3, 2e-6, 3e-6)))
    ended = "UPDATE job SET state = '{}', cause = '{}' WHERE run_id = {} AND position = {}"
    with past.database.transaction() as tx:
        tx.execute(text(ended.format("failed", "crashed", run, 0)))
        tx.execute(text(ended.format("skipped", "", run, 1)))
    out, err = run_command(
        capsys, "compare", "before", "crashed", "--markdown", "--fail-on", "wrong"
    )
    assert out.startswith("### 1 failed, 1 skipped\n")
    assert "2 verdicts changed (0 wrong, 0 fixed, 1 failed, 1 skipped)" in err
    run_command(capsys, "compare", "before", "crashed", "--fail-on", "regression", code=4)
    run_command(
        capsys, "compare", "crashed", "crashed", "--fail-on", "regression"
    )  # it failed before, too


def test_one_timing_is_said_as_one(past: Past, capsys: Captured) -> None:
    for label in ("first", "second"):
        past.run(label, past.done(1e-3), cases=["copy/f32/n4096"])
    hot = ("first", "second", "--metric", "hot")
    assert ": 1 timing in common" in run_command(capsys, "compare", *hot)[1]
    assert ": 1 timing in common" in run_command(capsys, "compare", *hot, "--markdown")[0]


def test_markdown_is_whole_and_capped(past: Past, capsys: Captured) -> None:
    out = run_command(capsys, "compare", "1", "2", "--markdown")[0]
    assert out.startswith("### 1 wrong, 2 slower\n")
    assert "**Verdicts changed: 1**" in out
    assert "| copy/f32/n4096 |" in out
    assert "NMSE 0.5 is over 1e-10" in out
    nothing = run_command(capsys, "compare", "1", "1", "--markdown")[0]
    assert nothing.startswith("### No change\n")
    assert "|" not in nothing
    rude = past.wrong("| </table> `rm` @all\n# heading")
    past.run("rude", rude, past.done(2e-6), past.done(3e-6))
    out = run_command(capsys, "compare", "before", "rude", "--markdown")[0]
    assert "\\| \\</table\\> \\`rm\\` @\u200ball #\u200b heading" in out


def test_throttled_timings_are_not_in_the_means(past: Past, capsys: Captured) -> None:
    run = past.run("hot", *map(past.done, (1e-3, 4e-6, 3e-6)))
    flag = (
        "UPDATE measurement SET flag = 'throttled' WHERE job_id IN"
        " (SELECT id FROM job WHERE run_id = {} AND position = 1)"
    )
    with past.database.transaction() as tx:
        tx.execute(text(flag.format(run)))
    out, err = run_command(capsys, "compare", "before", "hot", "--all", "--json")
    assert "6 timings in common (0 slower, 0 faster, 4 ~, 2 flagged and not counted)" in err
    assert json.loads(out)["summary"]["geometric_mean"] == pytest.approx(1)
    assert "geomean of 4" in run_command(capsys, "compare", "before", "hot", "--all")[0]


def test_the_canary_of_the_device_stands_beside_it(past: Past, capsys: Captured) -> None:
    assert "canary" not in run_command(capsys, "compare", "1", "2")[1]
    add = (
        "INSERT INTO canary (device_id, environment, measured_at, seconds, is_off)"
        " SELECT 1, {}, finished_at, {}, false FROM job JOIN attempt ON job_id = id"
        " WHERE run_id = {} AND position = 0"
    )
    with past.database.transaction() as tx:
        tx.execute(text("UPDATE job SET finished_at = '2026-01-01 00:00:00.0' WHERE run_id = 1"))
        tx.execute(text(add.format("environment", 0.001, 1)))
        tx.execute(text(add.format("environment", 0.0015, 2)))
        tx.execute(text("UPDATE canary SET measured_at = '2026-01-01 00:00:01.0' WHERE id = 1"))
        tx.execute(text(add.format("'through another driver'", 0.009, 1)))
    out, err = run_command(capsys, "compare", "1", "2", "--json")
    assert "canary of Planted 9000 (252e5e39f6aa): 1.5000 of what it was" in err
    assert json.loads(out)["summary"]["canaries"] == {"252e5e39f6aa": {"ratio": 1.5, "count": 1}}
    assert "- canary of Planted 9000" in run_command(capsys, "compare", "1", "2", "--markdown")[0]


@pytest.mark.usefixtures("filled")
def test_orders(capsys: Captured) -> None:
    def cases(*words: str) -> list[str]:
        rows = json.loads(run_command(capsys, "compare", "2", "1", "--all", "--json", *words)[0])[
            "rows"
        ]
        return [row["case"].partition("/")[0] for row in rows if row["ratio"]]

    assert cases() == ["copy", "copy", "mul_mat_vec", "mul_mat_vec"]
    assert cases("--sort", "p")[0] == "copy"
    assert cases("--sort", "case") == ["copy", "copy", "mul_mat_vec", "mul_mat_vec"]


def test_unlike_clocks_are_refused_unless_told(past: Past, capsys: Captured) -> None:
    locked = replace(past.environment, clock_policy="locked")
    past.add_device(past.device, locked)
    past.run("locked", *[replace(past.done(1e-3), environment=locked.hash)] * 3)
    out, err = run_command(capsys, "compare", "before", "locked", code=2)
    assert out == ""
    assert "252e5e39f6aa default and now locked" in err
    assert "--mix" in err
    assert "of new/old" in run_command(capsys, "compare", "before", "locked", "--mix")[1]


@pytest.fixture
def other(past: Past) -> str:
    """A second device, on another host, and a run there: copies take twice as long."""
    device = replace(past.device, key="ba9876543210", name="Other 1", host="there", uuid="1" * 32)
    past.add_device(device)
    past.run("other", past.done(2e-3), past.done(2e-6), past.wrong("NMSE 7"), device=device.key)
    return device.key


def test_runs_imported_from_two_labs_are_compared(
    past: Past, tmp_path: Path, capsys: Captured
) -> None:
    for host, seconds in (("h100", 2e-3), ("h200", 1e-3)):
        key = device_key(host, past.device.uuid)
        device = replace(past.device, key=key, name=f"GPU {host}", host=host)
        with Database.open(f"sqlite:///{tmp_path / host}.db", create=True) as there:
            lab = replace(past, database=there)
            lab.add_device(device)
            lab.run(host, *[past.done(seconds)] * 3, device=device.key)
            with there.reading() as tx:
                file = tmp_path / f"{host}.jsonl"
                file.write_text("".join(export_run(tx, 1)))
        assert cli.main(["import", str(file)]) == 0
    capsys.readouterr()
    for sides in (("3", "4"), ("h100", "h200"), ("device:h100", "device:h200")):
        out, err = run_command(capsys, "compare", *sides, "--json")
        figures = json.loads(out)["summary"]
        assert (figures["pairs"], figures["faster"]) == (6, 6)
        assert figures["geometric_mean"] == pytest.approx(0.5)
        assert "GPU h100 (" in err
        assert "GPU h200 (" in err


@pytest.mark.parametrize("sides", [("before", "other"), ("device:9000", "device:Other")])
def test_two_devices_are_compared_by_their_times(
    other: str, sides: tuple[str, str], past: Past, capsys: Captured
) -> None:
    past.run("again", *map(past.done, (1e-3, 2e-6, 3e-6)))
    out, err = run_command(capsys, "compare", *sides, "--json")
    answer = json.loads(out)
    wrong, copy, _ = answer["rows"]
    assert (copy["old_seconds"], copy["new_seconds"]) == (1e-3, 2e-3)
    assert (copy["ratio"], copy["change"]) == (pytest.approx(2), "slower")
    assert (copy["old_device_name"], copy["new_device_name"]) == ("Planted 9000", "Other 1")
    assert (copy["old_device"], copy["new_device"]) == (past.device.key, other)
    assert (copy["device"], copy["old_roof_fraction"]) == (None, None)
    assert (wrong["old_verdict"], wrong["new_verdict"]) == ("passed", "wrong")
    figures = answer["summary"]
    assert figures["is_across_devices"]
    assert figures["old_devices"] == [
        {"key": past.device.key, "name": "Planted 9000", "host": "here"}
    ]
    assert figures["geometric_mean"] == pytest.approx(2**0.5)
    assert "Planted 9000 (252e5e39f6aa, host here) → " in err
    assert "Other 1 (ba9876543210, host there): 4 timings in common (2 slower, 0 faster" in err
    assert "1 verdict differs (on the new side alone 1 wrong, 0 passed)" in err
    assert "roofs" not in err


def test_the_heading_says_which_devices_stand_on_each_side(other: str, capsys: Captured) -> None:
    out = run_command(capsys, "compare", "before", "other")[0]
    assert out.startswith(
        "old host: here\nold device: Planted 9000\nnew host: there\nnew device: Other 1\n"
    )
    for word in ("passed → wrong", "delta", "old ms", "new ms", "new/old"):
        assert word in out
    assert other not in out  # names tell them apart
    markdown = run_command(capsys, "compare", "before", "other", "--markdown")[0]
    assert markdown.startswith("### Across devices: 1 wrong only there, 2 slower\n")
    assert "run 1 (before) on Planted 9000 (252e5e39f6aa, host here) → run 3 (other) on" in markdown
    assert "| Other 1 |" not in markdown  # said already
    rows = list(
        csv.DictReader(io.StringIO(run_command(capsys, "compare", "before", "other", "--csv")[0]))
    )
    assert {(row["old_host"], row["new_host"]) for row in rows} == {("here", "there")}


def test_devices_of_one_name_are_told_apart_by_their_keys(past: Past, capsys: Captured) -> None:
    past.add_device(replace(past.device, key="ba9876543210", uuid="1" * 32))
    past.run("other", *map(past.done, (5e-3, 2e-6, 3e-6)), device="ba9876543210")
    out = run_command(capsys, "compare", "before", "other")[0]
    assert "old device key: 252e5e39f6aa\n" in out
    assert "new device key: ba9876543210\n" in out


def test_shares_of_roofs_stand_beside_times_where_both_have_them(
    other: str, past: Past, capsys: Captured
) -> None:
    share = "UPDATE measurement SET roof_fraction = {} WHERE metric = 'cold' AND job_id IN "
    of_run = "(SELECT id FROM job WHERE run_id = {})"
    with past.database.transaction() as tx:
        tx.execute(text(share.format(0.5) + of_run.format(1)))
        tx.execute(text(share.format(0.4) + of_run.format(3)))
        tx.execute(  # of hot timings one side's alone
            text(share.replace("cold", "hot").format(0.9) + of_run.format(3))
        )
    out, err = run_command(capsys, "compare", "before", "other", "--json")
    rows = [row for row in json.loads(out)["rows"] if row["ratio"]]
    shares = {row["metric"]: (row["old_roof_fraction"], row["new_roof_fraction"]) for row in rows}
    assert shares == {"cold": (0.5, 0.4), "hot": (None, None)}
    assert json.loads(out)["summary"]["roof_geometric_mean"] == pytest.approx(0.8)
    assert "shares of the devices' roofs, 2 in common: geometric mean of new/old 0.8000" in err
    assert "old, of roof" in run_command(capsys, "compare", "before", "other")[0]
    within = json.loads(run_command(capsys, "compare", "before", "after", "--json")[0])
    assert within["summary"]["roof_geometric_mean"] is None


@pytest.mark.usefixtures("other")
def test_a_slower_device_is_no_regression(capsys: Captured) -> None:
    out, err = run_command(capsys, "compare", "before", "other", "--fail-on", "regression", code=2)
    assert out == ""
    assert "a slower device is no regression" in err
    run_command(
        capsys, "compare", "before", "other", "--fail-on", "wrong", code=3
    )  # right on the old one
    run_command(capsys, "compare", "other", "before", "--fail-on", "wrong", code=0)


@pytest.mark.usefixtures("filled")
def test_the_same_cases_by_other_variants_are_no_pairs(past: Past, capsys: Captured) -> None:
    with past.database.transaction() as tx:
        tx.execute(text("UPDATE job SET variant = 'portable' WHERE run_id = 2"))
    _, err = run_command(capsys, "compare", "before", "after", code=7)
    assert "no timed case in common" in err
    assert "are the same, asked for by another --variant" in " ".join(err.split())


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
        (["device:9000", "device:planted"], 2, "both sides are device 252e5e39f6aa"),
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
    out, err = run_command(capsys, "compare", *words, code=code)
    assert out == ""
    assert hint in err
