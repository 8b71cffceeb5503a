"""`vkbench tune` on a real device: it sweeps, `auto` takes what it found, and tables travel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbench_shaders.tuning.tables import Table, Tuned, encode, read

Vkbench = Callable[..., Any]

SUM = "sum/f32/b1_c1_h64_w4096"
ROOT = Path(__file__).parents[2]
QUICKLY = ("--rounds", "1", "--seconds", "0.01")


def ran(vkbench: Vkbench, case: str, *words: str, **environ: str) -> tuple[str, str]:
    """The code path and the settings that a checked case ran with."""
    ended = vkbench("run", "--case", case, "--mode", "correctness", "--json", *words, **environ)
    assert ended.code == 0, ended.err
    [row] = ended.rows
    return row["variant"], row["settings"]


@pytest.mark.timeout(300)
def test_auto_takes_what_a_sweep_found(vkbench: Vkbench, database: Path, tmp_path: Path) -> None:
    assert ran(vkbench, SUM) == ("portable", "threads=256")
    ended = vkbench("tune", "--case", SUM, *QUICKLY, "--json")
    assert ended.code == 0, ended.err
    assert {row["settings"] for row in ended.rows} >= {f"threads={n}" for n in (64, 128, 256)}
    assert all(row["hot_seconds"] > 0 for row in ended.rows)
    [estimated] = [row for row in ended.rows if "estimated" in row["choice"]]
    assert estimated["settings"] == "threads=256"
    [best] = [row for row in ended.rows if "best" in row["choice"]]
    assert best["speed"] == pytest.approx(estimated["hot_seconds"] / best["hot_seconds"])
    expected = "portable" if best == estimated else best["configuration"]
    assert ran(vkbench, SUM) == (expected, best["settings"])
    assert ran(vkbench, "sum/f32/b1_c1_h60_w4000") == (expected, best["settings"])
    assert ran(vkbench, SUM, "--variant", "portable") == ("portable", "threads=256")
    [known] = vkbench("tune", "--show", "--json").rows
    assert (known["case"], known["configuration"]) == (SUM, best["configuration"])
    assert vkbench("calibrate").code == 0
    file = tmp_path / "table.json"
    assert vkbench("tune", "--export", str(file)).code == 0
    table = json.loads(file.read_text())
    assert table["device_class"] == "cpu"
    assert [each["configuration"] for each in table["tuned"]] == [best["configuration"]]
    send_in(file, tmp_path / "shipped")


def send_in(file: Path, shipped: Path) -> None:
    """A table that was exported is merged into those that ship; a changed one is refused."""
    shutil.copytree(ROOT / "shaders/vkbench_shaders/tuning", shipped)
    script = (sys.executable, str(ROOT / "scripts/merge_tables.py"), "--into", str(shipped))
    changed = file.with_name("changed.json")
    before = (shipped / "cpu.json").read_bytes()
    changed.write_text(file.read_text().replace('"seconds": ', '"seconds": 1', 1))
    done = subprocess.run([*script, changed, file], capture_output=True, text=True, check=False)
    assert (done.returncode, "changed or damaged after its export" in done.stderr) == (1, True)
    assert (shipped / "cpu.json").read_bytes() == before
    done = subprocess.run([*script, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 case of 1 judged on llvmpipe" in done.stdout
    assert "1 new case, 0 changed" in done.stdout
    merged = read((shipped / "cpu.json").read_bytes())
    assert [each.case for each in merged.tuned] == [SUM]
    assert merged.peaks
    assert merged.evidence == ()


def test_a_variant_that_auto_never_takes_is_shown_and_not_kept(
    vkbench: Vkbench, database: Path, tmp_path: Path
) -> None:
    case = "mul_mat_vec/q4_0/m64_n8_k512"
    words = ("tune", "--case", case, "--variant", "via_q8_1", "--settings", "3", *QUICKLY)
    before = ran(vkbench, case)
    by_name = ran(vkbench, case, "--variant", "via_q8_1")
    ended = vkbench(*words, "--json")
    assert ended.code == 0, ended.err
    assert [row["variant"] for row in ended.rows] == ["via_q8_1"] * 3
    [estimated] = [row for row in ended.rows if "estimated" in row["choice"]]
    assert (estimated, estimated["settings"]) == (ended.rows[0], by_name[1])
    [best] = [row for row in ended.rows if "best" in row["choice"]]
    assert (
        "nothing is kept of 1 case: `auto` never takes via_q8_1; to run the fastest, ask for it: "
        f"--case {case} --variant {best['configuration']}\n"
    ) in ended.err
    assert vkbench("tune", "--show", "--json").rows == []
    ended = vkbench("tune", "--export", str(tmp_path / "table.json"))
    assert (ended.code, "neither tuned nor calibrated" in ended.err) == (7, True)
    assert ran(vkbench, case) == before
    assert ran(vkbench, case, "--variant", "via_q8_1") == by_name
    asked = best["configuration"]
    assert ran(vkbench, case, "--variant", asked) == (asked, best["settings"])


def test_the_sweep_of_one_parameter_is_shown_side_by_side(vkbench: Vkbench, database: Path) -> None:
    ended = vkbench("tune", "--case", SUM, "--case", "matmul/f32/b1_m64_n64_k64", *QUICKLY,
                    "--settings", "3")  # fmt: skip
    assert ended.code == 0, ended.err
    [heading] = [line for line in ended.out.splitlines() if "threads=128" in line]
    assert heading.index("threads=64") < heading.index("threads=128") < heading.index("threads=256")
    assert ended.out.count("matmul/f32/b1_m64_n64_k64") == 3  # two parameters: a row each
    assert "of 2 cases" in ended.err
    assert "run 1: 6 passed" in ended.err
    again = vkbench("tune", "--run", "1", "--settings", "3")
    assert again.out == ended.out


def test_an_installed_table_is_used_where_nothing_was_measured(
    vkbench: Vkbench, database: Path, tmp_path: Path
) -> None:
    tuned = Tuned(
        case=SUM, configuration="portable:threads=64", seconds=1.0,
        estimated="portable:threads=256", estimated_seconds=2.0,
    )  # fmt: skip
    file = tmp_path / "table.json"
    file.write_bytes(encode(Table(device_class="cpu", tuned=(tuned,))))
    data = {"VKBENCH_DATA": str(tmp_path / "data")}
    ended = vkbench("tune", "--install", str(file), **data)
    assert ended.code == 0, ended.err
    assert ran(vkbench, SUM, **data) == ("portable:threads=64", "threads=64")
    assert ran(vkbench, "sum/f32/b1_c1_h2_w100", **data) == ("portable", "threads=256")


def test_a_computation_runs_the_configuration_that_is_asked_for(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    given, found = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, x=np.ones((4, 1000), np.float32))
    words = ("exec", "sum", "--input", str(given), "--output", str(found), "--variant")
    ended = vkbench(*words, "PORTABLE:threads=64")
    assert ended.code == 0, ended.err
    assert "portable:threads=64 on" in ended.out
    assert np.load(found)["y"].ravel().tolist() == [1000.0] * 4
    ended = vkbench(*words, "portable:threads=63")
    assert (ended.code, "unknown value of sum's threads '63'" in ended.err) == (2, True)


def test_settings_can_be_asked_for_by_name(vkbench: Vkbench, database: Path) -> None:
    assert ran(vkbench, SUM, "--variant", "portable:threads=128") == (
        "portable:threads=128",
        "threads=128",
    )
    ended = vkbench("run", "--case", SUM, "--variant", "portable:threads=100")
    assert (ended.code, "unknown value of sum's threads '100'" in ended.err) == (2, True)
    ended = vkbench("run", "--case", SUM, "--variant", "portable:tile=8")
    assert (ended.code, "unknown tunable parameter of sum 'tile'" in ended.err) == (2, True)


@pytest.mark.usefixtures("nothing_ran")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--kernel", "copy"), 7, "there is nothing to tune"),
        (("--kernel", "cpy"), 2, "unknown kernel 'cpy'; did you mean"),
        (("--kernel", "mul_mat", "--variant", "copmat"), 2, "did you mean 'coopmat'"),
        (("--kernel", "mul_mat", "--variant", "coopmat_f16"), 7, "cannot run: needs coopmat"),
        (("--show", "--submit"), 2, "give one of"),
        (("--run", "last"), 2, "there are no results yet"),
        (("--export", "table.json"), 8, "there is no database yet"),
        (("--submit", "--kernel", "sum"), 8, "there is no database yet"),
        (("--install", "missing.json"), 2, "cannot read missing.json"),
    ],
)
def test_what_cannot_be_tuned_is_said(
    asked: Vkbench, words: tuple[str, ...], code: int, said: str
) -> None:
    ended = asked("tune", *words)
    assert (ended.code, said in ended.err) == (code, True), ended.err


def test_nothing_is_known_before_the_first_sweep(asked: Vkbench) -> None:
    ended = asked("tune", "--show")
    assert (ended.code, ended.out) == (0, "")
    assert "run `vkbench tune`" in ended.err


def test_a_run_that_is_no_sweep_is_said(vkbench: Vkbench, database: Path) -> None:
    ran(vkbench, "copy/f32/n64")
    ended = vkbench("tune", "--run", "1")
    assert (ended.code, "run 1 is no sweep" in ended.err) == (2, True)
