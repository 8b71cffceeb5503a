"""Git repositories of a small program in C, which tests have vkbench build."""

from __future__ import annotations

import subprocess
from pathlib import Path

from planted_git import commit, git
from vkbench.programs.program import Program, Recipe

DECLARED = """\
name = "bench"
description = "a small one"
adapter = "lines"
needs = ["bench"]
run = ["./bench"]
[build]
command = "mkdir -p out && gcc -o out/bench bench.c"
folder = "out"
"""
RECIPE = Recipe(command="mkdir -p out && gcc -o out/bench bench.c", folder="out")
PROGRAM = Program(
    name="bench", description="a small one", adapter="lines", needs=("bench",), build=RECIPE
)
TEXT = "int main(void) {{ return {value}; }}\n"


def start_repository(folder: Path) -> Path:
    """A repository without a commit."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def commit_text(folder: Path, subject: str, text: str) -> str:
    """A commit in which the program's source is this text; its hash."""
    (folder / "bench.c").write_text(text)
    (folder / "NEWS").write_text(subject)  # two commits may have the same program
    commit(folder, subject)
    done = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def commit_value(folder: Path, subject: str, value: int) -> str:
    """A commit of a program that ends with a status."""
    return commit_text(folder, subject, TEXT.format(value=value))
