"""Every table fits the terminal that it is printed on, and says what it leaves out.

The terminal is a real one, a pseudo-terminal of some width; commands run in this process.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from commands import run_command
from demonstrated import demonstrated
from planted_lab import LONG_CASE, WORDS, make_lab
from planted_lines import add_program
from terminals import terminal
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_cli.show import layout
from vkbench_cli.show.telling import say, say_command, tell
from vkbench_cli.table import COMMANDS
from vkbench_tables.table import Rank

__all__ = ["demonstrated"]

pytestmark = pytest.mark.slow

WIDTHS = (80, 100, 120)
ALIKE = {
    "run": "results",
    "submit": "results",
    "watch": "results",
    "bisect": "bisect show",
    "driver ls": "bundle ls",
    "driver show": "bundle ls",
    "driver try": "compare",
}  # print the same tables, or such as are made alike


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database with everything in it that any table can show."""
    return make_lab(tmp_path_factory.mktemp("lab"), time.time())


@pytest.fixture(autouse=True)
def _in_the_lab(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{lab}")
    settings.cache_clear()
    for name in ("old", "new"):
        add_program(settings(), f"say()  # {name}", tmp_path / name, name)


def reading_commands() -> Mapping[str, object]:
    """Every command that prints a table, by its words."""
    commands = {}
    for row in COMMANDS:
        command = cli.load(row)
        for name, one in getattr(command, "commands", {}).items() or [("", command)]:
            commands[f"{row.name} {name}".strip()] = one
        commands.setdefault(row.name, command)
    return {
        name: one for name, one in commands.items() if any(p.name == "json" for p in one.params)
    }


def test_every_command_with_a_table_is_tried() -> None:
    assert set(reading_commands()) <= {*WORDS, *ALIKE}
    assert set(ALIKE.values()) <= set(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_no_line_is_wider_than_the_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in WIDTHS[:1] if name.startswith(SLOW) else WIDTHS:
        with terminal(columns, monkeypatch) as screen:
            assert cli.main(WORDS[name]) in (0, 1, 4, 8)
        notes = capsys.readouterr().err
        lines = screen.text.splitlines()
        assert len(lines) > 1, notes
        assert max(map(len, lines)) <= columns, max(lines, key=len)
        assert ("not shown at" in notes) == (f"not shown at {columns} columns: " in notes)


SLOW = ("selftest", "report", "kernels --grid", "kernel check", "accuracy", "doctor", "try")
NUMBERS = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)+(?:e[-+]\d+)?%?(?![\w.])")


@pytest.mark.parametrize("name", ["results --history", "calibrate", "noise", "compare"])
def test_numbers_are_whole(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal(2000, monkeypatch) as whole:
        cli.main([*WORDS[name], "--wide"])
    known = set(NUMBERS.findall(whole.text))
    assert known
    for columns in (40, 60, 80):
        with terminal(columns, monkeypatch) as screen:
            cli.main(WORDS[name])
        assert set(NUMBERS.findall(screen.text)) <= known
        assert max(map(len, screen.text.splitlines())) <= columns


def test_what_is_left_out_is_named_and_wide_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal(80, monkeypatch) as narrow:
        cli.main(WORDS["results --history"])
    notes = capsys.readouterr().err
    assert "not shown at 80 columns: " in notes
    assert "(--wide or --json shows all)" in notes
    assert "cold spread" in notes  # its heading is a sign that another column has too
    with terminal(80, monkeypatch) as wide:
        cli.main([*WORDS["results --history"], "--wide"])
    assert "not shown" not in capsys.readouterr().err
    assert "cold" in wide.text
    assert "cold" not in narrow.text
    assert max(map(len, wide.text.splitlines())) > 80


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 5, ["short"]),
        ("two words", 6, ["two", "words"]),
        ("mul_mat_vec/q4_0/m1_n1_k256", 15, ["mul_mat_vec/", "q4_0/m1_n1_k256"]),
        ("q4_0, q8_0, iq2_xxs", 12, ["q4_0, q8_0,", "iq2_xxs"]),
        ("m4096_n1_k14336", 10, ["m4096_n1_", "k14336"]),
        ("host-of-a.lab.example", 12, ["host-of-a.", "lab.example"]),
        ("1.3.275.1 -5", 9, ["1.3.275.1", "-5"]),
        ("0123456789abcdef", 6, ["012345", "6789ab", "cdef"]),
    ],
)
def test_text_breaks_where_it_has_joints(text: str, width: int, lines: list[str]) -> None:
    assert layout.wrap_text(text, width) == lines


# The demonstration's data in every table that only reads.
READING = (
    *(["regressions", "ls", "--all"], ["regressions", "suspected"]),
    *(["regressions", "show", str(number)] for number in range(1, 8)),
    *(
        ["compare", *pair]
        for pair in (["driver:24.2.0", "driver:24.3.1"], ["build:v1.1", "build:v1.2"])
    ),
    *(["results", *more] for more in ([], ["--history"], ["--statistics"], ["--state", "wrong"])),
    *([name] for name in ("devices", "status", "jobs", "noise", "doctor", "kernels", "watch")),
    *(["jobs", "last"], ["calibrate", "--show"], ["tune", "--show"], ["report", "run", "last"]),
    *([name, "ls"] for name in ("baseline", "bisect", "bundle", "schedule", "token", "driver")),
    *([name, "ls"] for name in ("program", "model")),
    *(["program", "show", "ggml-vulkan"], ["plot", "1"], ["report", "accuracy"]),
    ["query", "SELECT * FROM v_results LIMIT 20"],
)


@pytest.mark.timeout(400)  # as long as making it may take
def test_the_demonstration_fits_80_columns_and_no_name_is_cut(
    demonstrated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{demonstrated}")
    settings.cache_clear()
    for words in READING:
        with terminal(80, monkeypatch, errors=True) as screen:
            monkeypatch.setenv("TERM", "dumb")  # nothing moves
            code = cli.main(words)
        assert code in (0, 1, 7, 8), screen.text
        lines = screen.text.splitlines()
        assert max(map(len, lines)) <= 80, (words, max(lines, key=len))
        assert "…" not in screen.text, words
        assert "_per_second" not in screen.text or words[0] == "query"  # names of the view


def test_a_long_command_is_one_that_a_shell_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["vkbench", "run", "--case", LONG_CASE, "--device", "of a long name", "--bundle", "1"]
    with terminal(60, monkeypatch) as screen:
        say_command("run it again", shlex.join(command))
    typed = screen.text.partition("\n")[2]
    shell = subprocess.run(
        ["sh", "-c", f"echo() {{ printf '%s\\n' \"$@\"; }}; echo {typed}"],
        capture_output=True,
        text=True,
    )
    assert shell.stdout.splitlines() == command
    assert max(len(line) for line in typed.splitlines() if LONG_CASE not in line) <= 60
    with terminal(60, monkeypatch) as screen:
        say_command("run it", "vkbench run")
    assert screen.text == "run it: vkbench run\n"


def test_a_note_breaks_names_but_no_command_and_no_word_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal(60, monkeypatch, errors=True) as screen:
        tell(f"{LONG_CASE} was not judged: `vkbench results --case NAME`")
        say(LONG_CASE)
    *note, alone = screen.text.splitlines()
    assert max(map(len, note)) <= 60
    assert "".join(line.strip() for line in note[:2]).startswith(LONG_CASE)
    assert any("`vkbench results --case NAME`" in line for line in note)
    assert alone == LONG_CASE


def test_an_interval_is_left_out_whole() -> None:
    def number(name: str, *, is_joined: bool = False) -> layout.Strip:
        cells = ["1.2345"]
        return layout.Strip(
            name=name, heading=name, cells=cells, is_rigid=True, is_joined=is_joined
        )

    minor = Rank.MINOR
    strips = [
        number("ratio"),
        replace(number("from"), rank=minor),
        number("to", is_joined=True),
        replace(number("p"), rank=minor),
    ]
    assert layout.fit_table(strips, 30).left_out == []
    assert layout.fit_table(strips, 22).left_out == ["p"]
    assert layout.fit_table(strips, 21).left_out == ["from", "to"]  # p fits where both do not
    assert layout.fit_table(strips, 6).left_out == ["from", "to", "p"]
    assert layout.fit_table(strips, 5).left_out == ["from", "to", "p"]  # its number is not cut
    assert list(layout.lines(layout.fit_table(strips, 5))) == ["ratio", "1.2345"]


def test_a_long_table_takes_no_longer_a_line() -> None:
    def work(rows: int) -> int:
        reads = 0

        class Cells(list[str]):
            def __iter__(self) -> Iterator[str]:
                nonlocal reads
                reads += 1
                return super().__iter__()

        cells = Cells(["a name of some words"] * rows)
        strips = [layout.Strip(name=str(n), heading=str(n), cells=cells) for n in range(40)]
        layout.fit_table(strips, 80)
        return reads

    assert work(1000) == work(10) <= 40 * 3  # the cells of a column are looked at a few times


def test_a_table_of_lifted_columns_alone_has_no_lines() -> None:
    assert list(layout.lines(layout.fit_table([], 80))) == []


def test_a_file_gets_whole_lines_whatever_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out, err = run_command(capsys, *WORDS["results"])
    assert LONG_CASE in out
    assert "not shown" not in err


def test_a_terminal_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(200, monkeypatch) as screen:
        monkeypatch.setenv("COLUMNS", "60")
        cli.main(WORDS["jobs"])
    assert 40 < max(map(len, screen.text.splitlines())) <= 60


def test_the_command_itself_fits_a_terminal(start: Callable[..., str]) -> None:
    for line in start("jobs", "long", columns=60).splitlines():
        assert len(line) <= 60


@pytest.fixture
def start() -> Callable[..., str]:
    """Runs `vkbench` as a shell does, on a terminal of its own."""
    import subprocess

    code = "import sys; from vkbench_cli.main import main; sys.exit(main())"

    def started(*words: str, columns: int) -> str:
        with pytest.MonkeyPatch.context() as patch, terminal(columns, patch) as screen:
            command = [sys.executable, "-c", code, *words]
            subprocess.run(command, stdout=sys.stdout, check=True)
        return screen.text

    return started
