"""The command line as a whole: what loads, how help reads, and how errors end it."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run_command
from terminals import typed_into
from vkbench.errors import LISTED_BY, UnknownName
from vkbench_cli import main as cli
from vkbench_cli.table import COMMANDS, Command

HEAVY = ("vulkan", "celery", "kombu", "redis", "alembic", "sqlalchemy", "numpy", "gguf", "rich")


def loaded_after(*words: str) -> set[str]:
    """Top-level modules that a command line has loaded when it ends."""
    code = (
        "import sys; from vkbench_cli.main import main; main(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [(), ("--help",), ("--version",)])
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    assert not loaded_after(*words).intersection(HEAVY)


@pytest.mark.parametrize("words", [("results",), ("jobs",), ("query", "SELECT 1")])
def test_reading_loads_no_device_and_no_queue(words: tuple[str, ...]) -> None:
    unwanted = {"vulkan", "celery", "kombu", "redis", "alembic", "numpy", "gguf", "vkbench_worker"}
    assert not loaded_after(*words).intersection(unwanted)


def test_run_shows_what_it_does_before_it_loads_much() -> None:
    """The first line is there once its options are read: a few modules of ours, and no others."""
    code = (
        "import os, sys, vkbench_cli.show.telling as telling; from vkbench_cli.main import main;"
        "telling.Doing.__enter__ = lambda doing: print(*sys.modules, flush=True) or os._exit(0);"
        "main(['run', '--kernel', 'copy'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = done.stdout.split()
    assert "vkbench_cli.commands.measure.run" in loaded
    of_ours = [name for name in loaded if name.startswith("vkbench")]
    assert len(of_ours) <= 55, of_ours
    heavy = {*HEAVY, "msgspec", "asyncio", "http", "vkbench_db", "vkbench_worker"}
    assert not heavy.intersection(name.partition(".")[0] for name in loaded)


def test_suites_pose_no_case_before_one_is_asked_for() -> None:
    """Every `submit` and `run` loads them, whatever it submits."""
    code = (
        "import sys; from vkbench_shaders.kernel import Kernel; posed = [];"
        "case = Kernel.case; Kernel.case = lambda *a, **k: posed.append(a) or case(*a, **k);"
        "import vkbench_scheduler.planning.submit, vkbench_scheduler.planning.suites;"
        "sys.exit(len(posed))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_costs_little_more_than_typer_alone() -> None:
    def seconds(code: str) -> float:
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime

    shown = "from vkbench_cli.main import main; main(['--help'])"
    helped = min(seconds(shown) for _ in range(5))
    assert helped < 3 * min(seconds("import typer") for _ in range(5))


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from vkbench_cli.main import main; main(['--help']);"
        "sys.exit(any(n.startswith('vkbench_cli.commands.') for n in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_begins_its_help_with_its_line(
    row: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run_command(capsys, row.name, "--help")[0]
    assert row.help.rstrip(".") in " ".join(shown.split())
    assert "Usage: vkbench " + row.name in shown


def test_every_option_has_help() -> None:
    for row in COMMANDS:
        command = cli.load(row)
        for one in getattr(command, "commands", {"": command}).values():
            for parameter in one.params:
                assert getattr(parameter, "help", None), f"{row.name} {parameter.name}"


def test_no_command_shows_three_to_begin_with(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run_command(
        capsys,
    )
    named = re.findall(r"^  vkbench (\w+) ", out, re.MULTILINE)
    assert len(named) == 3
    assert {*named} <= {row.name for row in COMMANDS}
    assert err == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["kernls"], "kernels"),
        (["--nonsense"], "--nonsense"),
        (["kernels", "--nonsense"], "`vkbench kernels --help`"),
        (["run", "--mode", "fast"], "'--mode': 'fast' is not one of 'correctness'"),
        (["run", "--seconds", "0"], "'--seconds': it should be greater than or equal to 0.001"),
        (["submit", "--mode", "paired"], "'performance', 'both'"),
        (["run", "--repeat", "many"], "--repeat"),
        (["run", "--model", "a.gguf", "--batch", "0"], "--batch takes numbers from 1 on; got 0"),
        (["run", "--model", "a.gguf", "--batch", "2,0"], "--batch takes numbers from 1 on"),
        (["run", "--model", "a.gguf", "--prompt", "-1"], "--prompt takes numbers from 0 on"),
    ],
)
def test_usage_errors_are_one_line(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = run_command(capsys, *words, code=2)
    assert out == ""
    assert err.startswith("vkbench: ")
    assert err.count("\n") == 1
    assert hint in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UnknownName("kernel", "mulmat", ("mul_mat",)), 2, "did you mean 'mul_mat'?"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("by zero"), 4, "internal error: ZeroDivisionError: by zero"),
        (ModuleNotFoundError("no", name="celery"), 4, "pip install 'vkbench[scheduler]'"),
        (PermissionError(13, "Permission denied", "/root/x"), 4, "Permission denied: /root/x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_have_one_line_and_a_code(error: BaseException, code: int, message: str) -> None:
    line, status = cli.explain(error)
    assert status == code
    assert message in line
    assert "\n" not in line


def test_a_command_that_is_interrupted_says_so(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-c",
        "import sys; from vkbench_cli.main import main; sys.exit(main())",
    ]
    where = {"VKBENCH_DATA": str(tmp_path)}
    code, shown = typed_into(
        [*words, "run"], after="reading what is asked for", key=b"\x03", env=where
    )
    assert code == 130
    assert shown.endswith("vkbench: interrupted\n")


@pytest.mark.parametrize("command", sorted(set(LISTED_BY.values())))
def test_the_command_that_lists_names_is_one(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(capsys, *command.split()[1:], "--help")[0].startswith("Usage: vkbench ")


def test_traceback_is_there_for_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    text = run_command(capsys, "--traceback", "kernels", "--kernel", "non\x1bsense", code=2)[1]
    assert text.startswith("Traceback (most recent call last):\n")
    assert ", line " in text
    assert "UnknownName: unknown kernel 'non\\x1bsense'" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("words", [["kernels", "--json"], ["kernels"], ["--help"]])
def test_a_reader_that_leaves_is_no_error(words: list[str]) -> None:
    code = (
        f"import sys; from vkbench_cli.main import main;sys.stdin.read(); sys.exit(main({words}))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    ) as child:
        assert child.stdout
        assert child.stdin
        assert child.stderr
        child.stdout.close()
        child.stdin.close()
        errors = child.stderr.read()
        assert (child.wait(), errors) == (0, b"")


def test_an_unknown_setting_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VKBENCH_DATABSE", "x")
    assert "VKBENCH_DATABASE" in run_command(capsys, "doctor", code=2)[1]
