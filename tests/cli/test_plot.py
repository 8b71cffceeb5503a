"""`vkbench plot`: a series in the terminal and as a picture."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from commands import Captured, run_command
from planted_history import Plan, Step, file_lines
from terminals import terminal
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_cli.exporting import import_file
from vkbench_cli.show.series_plot import place, scatter
from vkbench_db.database import Database
from vkbench_detection.steps import detect

CASE = "mul_mat_vec/q4_0/m1_n1_k256"
NIGHTS = 40


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one case that became slower on the 25th night."""
    folder = tmp_path_factory.mktemp("history")
    lines = folder / "history.jsonl"
    step = Step(case=0, run=25, factor=1.2, cause="kernel")
    lines.write_text("".join(file_lines(Plan(cases=2, runs=NIGHTS, steps=[step], metrics=["hot"]))))
    with Database.open(f"sqlite:///{folder}/lab.db", create=True) as database:
        import_file(database, lines)
        detect(database, time.time(), all_at_once=True)
    return folder / "lab.db"


@pytest.fixture(autouse=True)
def lab(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{history}")
    settings.cache_clear()


def test_dots_stand_where_their_points_are() -> None:
    lines = scatter([(0, 0), (1, 1)], width=2, height=1, low=(0, 0), high=(1, 1))
    assert lines == ["⡀⠈"]  # down left, up right
    assert scatter([], width=3, height=2, low=(0, 0), high=(1, 1)) == ["   ", "   "]


@pytest.mark.parametrize(("value", "step"), [(0.0, 0), (0.49, 4), (1.0, 9), (2.0, 9), (-1.0, 0)])
def test_places_are_within_the_range(value: float, step: int) -> None:
    assert place(value, 0.0, 1.0, 10) == step


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_plot_fits_the_terminal_and_marks_the_change(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(width, monkeypatch) as screen:
        assert cli.main(["plot", CASE]) == 0
    lines = screen.text.splitlines()
    drawn = [line for line in lines if "│" in line or "┤" in line or "└" in line]
    assert max(map(len, drawn)) == width
    [mark] = [line for line in lines if line.strip() == "▲"]
    axis = next(line for line in lines if "└" in line)
    left, right = axis.index("└"), len(axis)
    assert (mark.index("▲") - left) / (right - left) == pytest.approx(25 / NIGHTS, abs=0.05)
    assert " ".join(map(str.strip, lines[:2])).startswith(f"series 1: {CASE}, hot")
    legend = next(at for at, line in enumerate(lines) if line.startswith("▲ "))
    assert "slower: confirmed, kernel" in " ".join(map(str.strip, lines[legend:]))


def test_a_file_has_the_width_of_a_terminal(capsys: Captured) -> None:
    out = run_command(capsys, "plot", "1", "--last", "5")[0]
    assert max(map(len, out.splitlines())) == 80
    assert "5 results" in out
    assert "▲" not in out  # the change is older


def test_a_picture_is_a_png(tmp_path: Path, capsys: Captured) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "plot.png"
    assert cli.main(["plot", "1", "--png", str(file)]) == 0
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 1200
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["plot", "99999"], 2, "unknown series '99999'"),
        (["plot", "9" * 30], 2, "unknown series"),
        (["plot", "*"], 2, "may be series 1 (mul_mat_vec"),
        (["plot", CASE, "--metric", "cold"], 2, "`vkbench noise` lists"),
        (["plot", CASE, "--metric", "warm"], 2, "'hot', 'cold' or 'copies'"),
        (["plot", "1", "--png", "/nowhere/x.png"], 2, "there is no folder"),
        (["plot", CASE, "--device", "H200"], 2, "unknown device"),
        (["plot", ""], 2, "no hot series"),
    ],
)
def test_bad_input_is_one_line(words: list[str], code: int, hint: str, capsys: Captured) -> None:
    err = run_command(capsys, *words, code=code)[1]
    assert hint in err
    assert err.count("\n") == 1


def test_matplotlib_is_asked_for_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert (
        "pip install 'vkbench[plot]'"
        in run_command(capsys, "plot", "1", "--png", str(tmp_path / "x.png"), code=4)[1]
    )
    assert list(tmp_path.iterdir()) == []
