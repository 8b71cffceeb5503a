"""What people see at 80 columns: every help, every table and the errors, as stored files.

`make snapshots` writes them anew. Look at the difference before it is committed.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planted_lab import make_lab
from terminals import terminal
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_cli.table import COMMANDS

HERE = Path(__file__).parent / "snapshots"
COLUMNS = 80
NOW = 1_790_000_000.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")  # a live view that was there for a moment

TABLES = {
    "devices": ["devices"],
    "status": ["status"],
    "jobs": ["jobs"],
    "jobs-run": ["jobs", "long"],
    "results": ["results", "--limit", "8"],
    "results-history": ["results", "--history", "--mode", "performance", "--limit", "8"],
    "results-markdown": ["results", "--limit", "2", "--as", "md"],
    "compare": ["compare", "20", "40", "--all"],
    "baseline-ls": ["baseline", "ls"],
    "noise": ["noise"],
    "plot": ["plot", "1"],
    "regressions-ls": ["regressions", "ls", "--all"],
    "regressions-show": ["regressions", "show", "1"],
    "regressions-suspected": ["regressions", "suspected"],
    "report-run": ["report", "run", "40"],
    "report-accuracy": ["report", "accuracy"],
    "bisect-ls": ["bisect", "ls"],
    "bisect-show": ["bisect", "show", "1"],
    "query": ["query", "SELECT case_name, metric, seconds FROM v_results LIMIT 5"],
    "schedule-ls": ["schedule", "ls"],
    "schedule-show": ["schedule", "show", "nightly"],
    "calibrate": ["calibrate", "--show"],
    "tune": ["tune", "--show"],
    "tune-run": ["tune", "--run", "sweep"],
    "kernels": ["kernels", "--kernel", "mul_mat_vec*"],
    "kernels-formats": ["kernels", "--formats", "--format", "q*"],
}
ERRORS = (
    ["kernls"],
    ["kernels", "--nonsense"],
    ["kernels", "--kernel", "mulmat"],
    ["results", "--format", "junit"],
    ["results", "--run", "nightly"],
    ["results", "--device", "4090"],
    ["results", "--state", "wrnog"],
    ["results", "--json", "--as", "bmf"],
    ["pause", "planted,9"],
    ["run", "--bundle", "abc"],
    ["run", "--gguf", "model.gguf"],
    ["run", "--shape", "m=x"],
    ["compare", "1", "99"],
    ["compare", "bundle:zz", "last"],
    ["compare", "driver:999", "last"],
    ["compare", "date:yesterday", "last"],
    ["compare", "20", "40", "--json", "--markdown"],
    ["compare", "device:Planted", "device:NVIDIA", "--fail-on", "regression"],
    ["baseline", "set", "main"],
    ["plot", "*"],
    ["query", "DROP TABLE job"],
    ["query", "SELECT speed FROM v_results"],
    ["watch", "last", "--timeout", "0"],
    ["bisect", "--case", "copy/f32/n64"],
    ["regressions", "show", "99"],
    ["results", "--database", "/nowhere/x.db"],
    ["results", "--database", "postgresql://vk@127.0.0.1:1/x"],
    ["report", "run"],
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lab(tmp_path_factory.mktemp("lab"), NOW)


@pytest.fixture(autouse=True)
def stopped_clock(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lab's database, and a clock and a zone that stay."""
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{lab}")
    monkeypatch.setenv("VKBENCH_HOST", "here")
    monkeypatch.setenv("VKBENCH_REDIS", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: NOW)
    settings.cache_clear()
    yield
    monkeypatch.undo()
    time.tzset()


def commands() -> Iterator[list[str]]:
    """The words of every command, and of those below it."""
    yield []
    for row in COMMANDS:
        yield [row.name]
        yield from ([row.name, name] for name in getattr(cli.load(row), "commands", {}))


HELPS = {"-".join(["help", *words]): [*words, "--help"] for words in commands()}


def shown(words: list[str], monkeypatch: pytest.MonkeyPatch, lab: Path) -> str:
    """What a terminal of 80 columns shows of a command, and its exit code."""
    with terminal(COLUMNS, monkeypatch, errors=True) as screen, monkeypatch.context() as patched:
        patched.setenv("TERM", "dumb")  # no line moves
        code = cli.main(words)
    text = _CONTROL.sub("", screen.text).replace(str(lab), "/lab.db")
    return f"$ {shlex.join(['vkbench', *words])}\n{text}[{code}]\n"


def check(name: str, text: str, renew: bool) -> None:
    assert "internal error" not in text
    file = HERE / f"{name}.txt"
    if renew:
        HERE.mkdir(exist_ok=True)
        file.write_text(text)
    assert file.is_file(), "`make snapshots` writes it"
    assert text == file.read_text(), "look at the difference; `make snapshots` accepts it"
    wide = [line for line in text.splitlines() if len(line) > COLUMNS and not _is_typed(line)]
    assert wide == []


def _is_typed(line: str) -> bool:
    return line.startswith(("$ ", "|")) or "https://" in line


@pytest.mark.parametrize("name", HELPS)
def test_help(name: str, monkeypatch: pytest.MonkeyPatch, lab: Path, renew: bool) -> None:
    check(name, shown(HELPS[name], monkeypatch, lab), renew)


@pytest.mark.parametrize("name", TABLES)
def test_table(name: str, monkeypatch: pytest.MonkeyPatch, lab: Path, renew: bool) -> None:
    check(name, shown(TABLES[name], monkeypatch, lab), renew)


def test_errors(monkeypatch: pytest.MonkeyPatch, lab: Path, renew: bool) -> None:
    texts = [shown(words, monkeypatch, lab) for words in ERRORS]
    assert not [text for text in texts if text.endswith("[0]\n")]
    check("errors", "\n".join(texts), renew)


def test_the_first_screen(monkeypatch: pytest.MonkeyPatch, lab: Path, renew: bool) -> None:
    check("first-screen", shown([], monkeypatch, lab), renew)


def test_no_snapshot_is_left_over() -> None:
    known = {*HELPS, *TABLES, "errors", "first-screen"}
    assert {file.stem for file in HERE.glob("*.txt")} == known


@pytest.mark.parametrize("name", HELPS)
def test_help_cuts_nothing(name: str, monkeypatch: pytest.MonkeyPatch, lab: Path) -> None:
    _, _, *lines = shown(HELPS[name], monkeypatch, lab).splitlines()
    assert [line for line in lines if line.endswith(("...", "…"))] == []
