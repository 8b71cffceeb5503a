"""Builds of ggml under test on one machine, by the commands that a user types."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planted_builds import add_planted, add_shipped
from vkbench.programs.store import BuildStore
from vkbench.settings import settings
from vkbench.words.markdown import escape_text
from vkbench_cli.main import main

SUM = "add/f32/b1_c1_h8_w64"
PRODUCT = "mul_mat_vec/q4_0/m64_n1_k1024"
Typed = Callable[..., Any]


@pytest.fixture
def vkbench(new_lavapipe: Path) -> Typed:
    """A command on the newer lavapipe: Debian's frees buffers twice under ggml."""

    def run(*words: str) -> Any:
        command = [str(new_lavapipe / "vkbench"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    return run


@pytest.mark.timeout(240)
def test_a_wrong_build_is_a_regression_of_the_program(
    vkbench: Typed, ggml_folder: Path, tmp_path: Path
) -> None:
    added = vkbench("program", "build", "add", "ggml-vulkan", str(ggml_folder), "--name", "old")
    assert added.returncode == 0, added.stderr
    store = BuildStore(settings().build_folder())
    wrong = add_planted(store, ggml_folder, "wrong", tmp_path / "planted")
    listed = json.loads(vkbench("program", "build", "ls", "--json").stdout)["rows"]
    assert [(row["name"], row["sha"]) for row in listed] == [
        ("old", added.stdout.strip()),
        ("wrong", wrong.sha),
    ]
    chosen = ("--case", SUM, "--case", PRODUCT, "--seconds", "0.1")
    ran = vkbench("run", "--build", "old", *chosen)
    assert ran.returncode == 0, ran.stderr
    assert "4 passed" in ran.stderr
    results = json.loads(vkbench("results", "--json").stdout)["rows"]
    assert {(row["variant"], row["bundle"]) for row in results} == {
        ("ggml-vulkan", listed[0]["sha"])
    }
    other = ("--database", str(tmp_path / "other.db"))
    assert vkbench("export", "last", "--output", str(tmp_path / "run.jsonl")).returncode == 0
    imported = vkbench("import", str(tmp_path / "run.jsonl"), *other)
    assert imported.returncode == 0, imported.stderr
    compared = vkbench("compare", "build:old", "last", *other)
    assert compared.stderr.startswith("build old"), compared.stderr
    ran = vkbench("run", "--build", "wrong", "--mode", "correctness", "--case", PRODUCT)
    assert ran.returncode == 3
    [regression] = json.loads(vkbench("regressions", "ls", "--json").stdout)["rows"]
    assert regression["title"].startswith("ggml-vulkan mul_mat_vec q4_0 wrong on ")
    assert " since wrong (" in regression["title"]
    assert regression["cause"] == "build"
    compared = vkbench("compare", "build:old", "build:wrong", "--json")
    assert "1 verdict changed (1 wrong, 0 fixed)" in compared.stderr
    freed = vkbench("program", "build", "rm", "old")
    assert freed.stderr.endswith("are free again\n")
    gone = vkbench("run", "--build", "old", *chosen)
    assert (gone.returncode, gone.stderr) == (2, "vkbench: unknown build 'old'; there is 'wrong'\n")


@pytest.mark.timeout(300)
def test_operations_of_ggml_alone_are_chosen_by_their_names(
    vkbench: Typed, ggml_folder: Path
) -> None:
    add_shipped(BuildStore(settings().build_folder()), ggml_folder, "one")
    chosen = ("--case", "ggml-vulkan:roun*", "--case", SUM, "--mode", "correctness")
    ran = vkbench("run", "--build", "one", *chosen, "--json")
    assert ran.returncode == 0, ran.stderr
    assert {(row["case"], row["verdict"]) for row in json.loads(ran.stdout)["rows"]} == {
        ("ggml-vulkan:round/f32/h512_w4096", "passed"),
        (SUM, "passed"),
    }
    misspelt = vkbench("run", "--build", "one", "--case", "ggml-vulkan:add_ids/f32/n512_u4")
    assert misspelt.returncode == 2
    assert misspelt.stderr.startswith("vkbench: unknown case of ggml-vulkan")


@pytest.mark.timeout(300)
def test_the_first_bad_build_is_found(vkbench: Typed, ggml_folder: Path, tmp_path: Path) -> None:
    store = BuildStore(settings().build_folder())
    add_shipped(store, ggml_folder, "one")
    shutil.copytree(ggml_folder, tmp_path / "two", symlinks=False)
    (tmp_path / "two" / "libggml-cpu-new.so").write_bytes(b"a file that no case needs")
    add_shipped(store, tmp_path / "two", "two")
    add_planted(store, ggml_folder, "wrong", tmp_path / "planted")
    add_planted(store, ggml_folder, "crash", tmp_path / "crash")
    chosen = ("--case", PRODUCT, "--seconds", "0.1")
    found = vkbench("bisect", *chosen, "--builds", "one,two,two,wrong", "--json")
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)["rows"]
    assert [(row["label"], row["verdict"]) for row in rows] == [
        ("one", "taken as good"),
        ("two", "good"),
        ("wrong", "wrong"),
    ]
    assert [row["is_first_bad"] for row in rows] == [False, False, True]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("program", "build", "add", "ggml", "."),
            "unknown program 'ggml'; did you mean 'ggml-vulkan'?",
        ),
        (("program", "build", "add", "ggml-vulkan", "{tmp}/no"), "there is no folder or archive"),
        (("program", "build", "add", "ggml-vulkan", "{tmp}"), "there is no libggml-base.so* in it"),
        (("program", "build", "show", "b1"), "unknown build 'b1'"),
        (("run", "--build", "b1"), "unknown build 'b1'"),
        (
            ("run", "--build", "b1", "--bundle", "a"),
            "--build has a program do the cases: leave out --bundle",
        ),
        (("bisect", "--case", SUM, "--builds", "b1"), "unknown build 'b1'"),
        (
            ("bisect", "--case", SUM, "--builds", "b1", "--bad", "b2"),
            "--builds begins with the good",
        ),
        (("submit", "--build", "b1"), "unknown build 'b1'"),
        (("submit", "--build", "b1", "--bundle", "a"), "--build has a program do the cases"),
        (("schedule", "add", "x", "--cron", "0 2 * * *", "--build", "b1"), "unknown build 'b1'"),
        (
            ("schedule", "add", "x", "--cron", "0 2 * * *", "--build", "mine", "--suite", "quick"),
            "cannot sign a build by {tmp}/no-key (VKBENCH_BUILD_KEY): ",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    monkeypatch.setenv("VKBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VKBENCH_BUILD_KEY", str(tmp_path / "empty" / "no-key"))
    opens = {"libggml-base.so": io.BytesIO, "libggml-vulkan.so": io.BytesIO}
    BuildStore(tmp_path / "data" / "builds").add("ggml-vulkan", opens, "mine")
    (tmp_path / "empty").mkdir()
    assert main([word.format(tmp=tmp_path / "empty") for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"vkbench: {complaint.format(tmp=tmp_path / 'empty')}")
    assert err.count("\n") == 1


def test_a_try_looks_among_the_builds_of_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VKBENCH_DATA", str(tmp_path))
    store = BuildStore(settings().build_folder())
    for program, path, name in (
        ("ggml-vulkan", "a", "b1"),
        ("other", "b", "b1"),
        ("other", "c", "b2"),
    ):
        store.add(program, {path: io.BytesIO}, name)
    words = ["try", "ggml-vulkan", "--database", str(tmp_path / "x.db"), "--old", "b1", "--new"]
    assert main([*words, "b1"]) == 7
    assert main([*words, "b2"]) == 2
    assert main([*words, "b3"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "vkbench: b1 and b1 have the same files: there is nothing to compare",
        "vkbench: b2 is a build of other, not of ggml-vulkan",
        "vkbench: unknown build 'b3'; did you mean 'b1'?",
    ]


@pytest.mark.timeout(300)
def test_a_try_says_what_a_change_does(vkbench: Typed, ggml_folder: Path, tmp_path: Path) -> None:
    store = BuildStore(settings().build_folder())
    add_shipped(store, ggml_folder, "old")
    add_planted(store, ggml_folder, "slow", tmp_path / "slow")
    add_planted(store, ggml_folder, "wrong", tmp_path / "wrong")
    chosen = ("--case", PRODUCT, "--seconds", "0.1")
    tried = vkbench("try", "ggml-vulkan", "--old", "old", "--new", "slow", *chosen, "--json")
    assert tried.returncode == 1, tried.stderr
    answer = json.loads(tried.stdout)
    verdicts = {row["case"]: (row["verdict"], row["pairs"]) for row in answer["rows"]}
    verdict, pairs = verdicts[PRODUCT]
    assert (verdict, pairs >= 8) == ("slower", True)  # more where the machine is busy
    assert answer["summary"]["geometric_mean"] > 1.5
    assert "old → slow: 1 case (1 slower), 100% slower by 5 % or more" in tried.stderr
    commented = vkbench(
        *("try", "ggml-vulkan", "--old", "old", "--new", "wrong", "--markdown"), *chosen
    )
    assert commented.returncode == 3
    assert commented.stdout.startswith("### old → wrong: 1 wrong")
    assert "**Wrong or failed: 1**" in commented.stdout
    assert escape_text(PRODUCT) in commented.stdout
    back = vkbench("try", "ggml-vulkan", "--old", "wrong", "--new", "old", *chosen)
    assert back.returncode == 0, back.stderr
    assert "1 fixed" in back.stderr
    same = vkbench("try", "ggml-vulkan", "--old", "old", "--new", "old", *chosen)
    assert (same.returncode, same.stderr) == (
        7,
        "vkbench: old and old have the same files: there is nothing to compare\n",
    )
