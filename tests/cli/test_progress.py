"""A command that takes over two seconds shows how far it is, or how long it has run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from commands import Captured, run_command
from planted_history import Plan, file_lines
from terminals import terminal
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_cli.show import progress, telling
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import Doing, Elapsed


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Path:
    """The file of an export, which a database already has."""
    file = tmp_path / "results.jsonl"
    file.write_text("".join(file_lines(Plan(cases=2, runs=12, steps=()))))
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{tmp_path}/lab.db")
    settings.cache_clear()
    assert cli.main(["import", str(file)]) == 0
    capsys.readouterr()
    return file


def test_what_can_be_counted_is(
    lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(progress, "SILENCE_SECONDS", 0.0)
    size = lab.stat().st_size // 1000
    for words, total in (
        (["import", str(lab)], f"kB of results.jsonl: {size} of {size} done"),
        (["regressions", "scan", "--all"], "series: 2 of 4 done"),
    ):
        assert total in run_command(capsys, *words)[1]


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["results"], "reading the database"),
        (["query", "SELECT 1"], "reading the database"),
        (["db", "upgrade"], "upgrading the database"),
        (["db", "prune", "--older-than", "1y", "--dry-run"], "looking for bundles"),
        (["doctor"], "checking"),
    ],
)
def test_of_other_waits_the_length_is_told(
    words: list[str],
    label: str,
    lab: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.setattr(telling, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(telling, "SILENCE_SECONDS", 0.001)
    end = telling.Elapsed._end

    def end_later(wait: telling.Elapsed) -> None:
        time.sleep(0.1)  # so that the shortest wait is told
        end(wait)

    monkeypatch.setattr(telling.Elapsed, "_end", end_later)
    assert cli.main(words) in (0, 4)
    assert f"{label}: 0 seconds\n" in capsys.readouterr().err


def test_a_short_wait_says_nothing(capsys: Captured) -> None:
    with Elapsed("a moment"):
        pass
    assert capsys.readouterr().err == ""


def test_a_progress_takes_its_place(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(telling, "PATIENCE_SECONDS", 0.0)
    for module in (telling, progress):
        monkeypatch.setattr(module, "SILENCE_SECONDS", 0.01)
    with Elapsed("all of it"), CountedProgress("part", 2) as part:
        capsys.readouterr()
        time.sleep(0.1)
        part.tell(1)
    lines = capsys.readouterr().err
    assert "part: 1 of 2 done" in lines
    assert "all of it" not in lines


def test_a_terminal_shows_it_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with terminal(80, monkeypatch, errors=True) as screen, Elapsed("a \x1b query"):
        time.sleep(0.5)
    shown = "a \\x1b query: 0 seconds"
    assert shown in screen.text
    assert not screen.text.rstrip().endswith(shown)  # it was erased


def test_a_file_gets_no_word_of_what_is_short(capsys: Captured) -> None:
    with Doing("reading") as doing:
        Doing.now("loading")
        doing.count_kernels(1, 2, "copy")
        assert capsys.readouterr().err == ""  # a mistake in what was typed is one line
        doing.count_kernels(2, 2, "copy")
    assert capsys.readouterr().err == "compiled 2 kernels\n"


def test_a_file_gets_a_line_of_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(telling, "SILENCE_SECONDS", 0.05)
    with Doing("reading"):
        Doing.now("loading")
        time.sleep(0.5)
    assert capsys.readouterr().err.startswith("loading: ")


def test_a_terminal_shows_one_line_that_moves_and_is_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with terminal(80, monkeypatch, errors=True) as screen:
        with Doing("loading") as doing:
            sys.stderr.flush()
            doing.count_kernels(1, 3, "copy")
            time.sleep(0.7)
        print("a table")
    assert screen.text.startswith("loading\r")
    assert "compiling kernel 2 of 3: " in screen.text
    assert screen.text.endswith("\x1b[2Ka table\n")


def test_a_terminal_that_cannot_move_its_cursor_gets_no_line_that_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with terminal(80, monkeypatch, errors=True) as screen, Doing("reading"):
        Doing.now("loading")
    assert screen.text == ""
