"""Programs that users declare, on one machine: our examples in other languages, by commands."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from planted_lines import COPY, NAME, RIGHT, SUM, add_program
from vkbench.settings import settings

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "programs"
PRODUCT = "mul_mat_vec/f32/m64_n1_k1024"
WRONG = ("y[column * m + row] = sum;", "y[column * m + row] = sum * 1.001f;")

Type = Callable[..., tuple[int, str, str]]
Rows = list[dict[str, Any]]


@pytest.fixture
def type_words(
    vkbench: Callable[..., Any],
    nothing_ran: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Type:
    """Type a command of a user whose data folder is empty at first."""
    monkeypatch.setenv("VKBENCH_DATA", str(tmp_path / "data"))
    settings.cache_clear()

    def run(*words: str) -> tuple[int, str, str]:
        ended = vkbench(*words)
        return ended.code, ended.out, ended.err

    return run


def rows_of(type_words: Type, *words: str) -> Rows:
    code, out, err = type_words(*words, "--json")
    assert code == 0, err
    rows: Rows = json.loads(out)["rows"]
    return rows


def test_the_example_in_c_is_built_judged_and_timed(
    type_words: Type, tmp_path: Path, need: Callable[[str, str], NoReturn]
) -> None:
    if not shutil.which("g++"):
        need("programs", "g++ is not installed")
    assert type_words("program", "add", str(EXAMPLES / "cpu-products.toml"))[0] == 0
    source = (EXAMPLES / "cpu-products.cpp").read_text()
    for name, text in (("right", source), ("wrong", source.replace(*WRONG))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "cpu-products.cpp").write_text(text)
        command = ["g++", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "cpu-products"]
        subprocess.run([*command, "cpu-products.cpp"], cwd=folder, check=True)
        added = type_words("program", "build", "add", "cpu-products", str(folder), "--name", name)
        assert added[0] == 0, added
    timed = ("--seconds", "0.05", "--mode", "performance")
    chosen = ("--case", PRODUCT, "--case", "cpu-products:*")
    code, _, err = type_words("run", "--build", "right", *chosen, *timed)
    assert code == 0, err
    rows = rows_of(type_words, "results")
    rows.sort(key=lambda row: str(row["case"]), reverse=True)
    assert [(row["case"], row["verdict"]) for row in rows] == [
        (PRODUCT, "passed"),
        ("cpu-products:copy/64m", "passed"),
    ]
    assert rows[0]["nmse"] < 1e-12
    assert rows[0]["flops_per_second"] > 0
    assert rows[1]["nmse"] is None
    assert "judged by the program itself" in rows[1]["warnings"]
    assert (rows[1]["kernel"], rows[1]["format"], rows[1]["shape"]) == (
        "cpu-products:copy",
        "",
        "64m",
    )
    code, _, err = type_words("run", "--build", "wrong", "--case", PRODUCT, *timed)
    assert code == 3, err
    [wrong] = [row for row in rows_of(type_words, "results") if row["verdict"] == "wrong"]
    assert (wrong["verdict"], wrong["hot_seconds"]) == ("wrong", None)
    assert "NMSE of y is" in wrong["reason"]
    [regression] = rows_of(type_words, "regressions", "ls")
    assert regression["title"].startswith("cpu-products mul_mat_vec f32 wrong on ")
    assert " since wrong (" in regression["title"]


def test_the_example_for_node_is_judged_and_timed(
    type_words: Type, need: Callable[[str, str], NoReturn]
) -> None:
    if not shutil.which("node"):
        need("programs", "node is not installed")
    assert type_words("program", "add", str(EXAMPLES / "array-sums.toml"))[0] == 0
    added = type_words("program", "build", "add", "array-sums", str(EXAMPLES), "--name", "js")
    assert added[0] == 0, added
    timed = ("--seconds", "0.05", "--mode", "performance")
    cases = ("--case", "add/f32/b1_c1_h8_w64", "--case", "array-sums:sort/1m")
    code, _, err = type_words("run", "--build", "js", *cases, *timed)
    assert code == 0, err
    rows = rows_of(type_words, "results")
    assert {(row["verdict"], row["nmse"]) for row in rows} == {("passed", 0.0), ("passed", None)}


@pytest.mark.timeout(240)
def test_own_cases_are_paired_compared_bisected_and_exported(
    type_words: Type, tmp_path: Path
) -> None:
    bodies = {
        "one": "say()",
        "two": "say()  # another build",
        "slow": "say(samples=[9e-6] * 60)",
    }
    for name, body in bodies.items():
        add_program(settings(), body, tmp_path / name, name)
    code, _, err = type_words("run", "--build", "one", "--case", COPY)
    assert code == 0, err
    assert type_words("run", "--build", "slow", "--case", COPY)[0] == 0
    code, out, err = type_words("compare", "build:one", "build:slow")
    assert "1 timing in common" in out + err
    found = rows_of(type_words, "bisect", "--case", COPY, "--builds", "one,two,slow")
    assert [row["label"] for row in found if row["is_first_bad"]] == ["slow"]
    file, other = str(tmp_path / "run.jsonl"), str(tmp_path / "other.db")
    assert type_words("export", "1", "--output", file)[0] == 0
    code, _, err = type_words("import", file, "--database", other)
    assert code == 0, err
    [row] = rows_of(type_words, "results", "--database", other)
    assert (row["case"], row["kernel"]) == (COPY, f"{NAME}:copy")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run", "--case", COPY), f"{COPY} is a case of the program {NAME}: give a --build of it"),
        (("run", "--build", "b", "--case", f"{NAME}:copi/64m"), f"unknown case of {NAME} "),
        (("run", "--build", "b", "--case", "other:copy"), "other:copy is a case of other, and the"),
        (("run", "--build", "b", "--case", f"{NAME}:"), f"unknown case of {NAME} "),
        (
            ("bisect", "--case", COPY, "--bundles", "a,b"),
            f"{COPY} is a case of the program {NAME}: give --builds of it",
        ),
        (
            ("bisect", "--case", "other:copy", "--builds", "b,c"),
            "other:copy is a case of other, and --builds are of another",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(
    type_words: Type, tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    for name in ("b", "c"):
        add_program(settings(), f"say()  # {name}", tmp_path / name, name)
    code, out, err = type_words(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"vkbench: {complaint}")
    assert err.count("\n") == 1


def test_a_try_ends_with_its_budget_although_a_pair_goes_on(
    type_words: Type, tmp_path: Path
) -> None:
    for name, copies in (("old", "say()"), ("new", "time.sleep(50); say()")):
        body = f"if request['case'] == 'copy/64m':\n    {copies}\nelse:\n    {RIGHT}"
        add_program(settings(), body, tmp_path / name, name)
    chosen = ("--case", SUM, "--case", COPY, "--seconds", "0.01", "--budget", "20", "--all")
    words = ("try", NAME, "--old", "old", "--new", "new", *chosen, "--json")
    code, out, err = type_words(*words)
    rows = {row["case"]: row for row in json.loads(out)["rows"]}
    assert code in (0, 7), err  # the other case may be timed before, or not
    assert (rows[COPY]["verdict"], rows[COPY]["pairs"]) == ("undecided", 0)
    assert rows[COPY]["note"] == "the time was over while it was measured"
