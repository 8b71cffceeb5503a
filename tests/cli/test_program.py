"""`vkbench program`: what a user declares of a program is kept, shown, and refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

DECLARED = """\
name = "my-bench"
description = "copies bytes"
adapter = "lines"
needs = ["my-bench"]
run = ["./my-bench"]
[build]
command = "make"
folder = "out"
"""
Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    path = tmp_path / "program.toml"
    path.write_text(DECLARED)
    return path


def test_a_program_is_added_shown_and_removed(
    type_words: Type, declared: Path, tmp_path: Path
) -> None:
    assert type_words("program", "add", str(declared)) == (0, "my-bench\n", "")
    rows = json.loads(type_words("program", "ls", "--json")[1])["rows"]
    assert [(row["name"], row["adapter"], row["builds"]) for row in rows] == [
        ("ggml-vulkan", "ggml", 0),
        ("my-bench", "lines", 0),
    ]
    rows = json.loads(type_words("program", "show", "my-bench", "--json")[1])["rows"]
    assert {row["field"]: row["value"] for row in rows}["build.folder"] == "out"
    (tmp_path / "my-bench").write_text("#!/bin/sh\n")
    code, out, _ = type_words("program", "build", "add", "my-bench", str(tmp_path), "--name", "v1")
    assert (code, len(out.strip())) == (0, 64)
    code, _, err = type_words("program", "rm", "my-bench")
    assert code == 2
    assert "1 build of my-bench is kept: remove it by `vkbench program build rm`" in err
    assert type_words("program", "build", "rm", "v1")[0] == 0
    assert type_words("program", "rm", "my-bench") == (0, "", "")
    assert len(json.loads(type_words("program", "ls", "--json")[1])["rows"]) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("add", "nothing.toml"), "cannot read nothing.toml: No such file or directory"),
        (("show", "my-bensh"), "unknown program 'my-bensh'"),
        (("rm", "ggml-vulkan"), "ggml-vulkan is a program that vkbench has by itself: it stays"),
        (("rm", "my-bench"), "unknown program 'my-bench'"),
        (("build", "add", "my-bench", "."), "unknown program 'my-bench'"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    type_words: Type, words: tuple[str, ...], complaint: str
) -> None:
    code, out, err = type_words("program", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"vkbench: {complaint}")
    assert err.count("\n") == 1


def test_an_arithmetic_is_one_that_judges(type_words: Type, declared: Path) -> None:
    declared.write_text(f'arithmetic = "f61"\n{DECLARED}')
    code, _, err = type_words("program", "add", str(declared))
    assert (code, err.partition(";")[0]) == (2, "vkbench: unknown tolerance 'f61'")
    declared.write_text(f'arithmetic = "f16_accumulation"\n{DECLARED}')
    assert type_words("program", "add", str(declared))[0] == 0


def test_a_code_path_is_no_programs_name(type_words: Type, declared: Path) -> None:
    declared.write_text(DECLARED.replace("my-bench", "portable"))
    code, _, err = type_words("program", "add", str(declared))
    assert (code, err) == (
        2,
        f"vkbench: {declared}: name: portable is a code path of a kernel: choose another\n",
    )
