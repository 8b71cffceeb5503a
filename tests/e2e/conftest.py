"""A machine with a Vulkan device, and `vkbench` on it as a person has it: a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forked import OF_COMMANDS, Forked
from vkbench_cli.main import main

COMMAND = ("-c", "import sys; from vkbench_cli.main import main; sys.exit(main())")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that it printed as JSON."""
        return list(json.loads(self.out)["rows"])


Vkbench = Callable[..., Ended]


def start(*words: str, **environ: str) -> subprocess.Popen[str]:
    """A command that is running."""
    return Forked(
        [*COMMAND, *words],
        OF_COMMANDS,
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(*words: str, **environ: str) -> Ended:
    """A command, run to its end."""
    with start(*words, **environ) as child:
        out, err = child.communicate()
    return Ended(code=child.returncode, out=out, err=err)


@pytest.fixture
def vkbench(need: Callable[[str, str], None]) -> Vkbench:
    """`vkbench("run", "--json")` on a machine with a device."""
    if trouble():
        need("gpu", trouble())
    return end


@pytest.fixture
def asked(vkbench: Vkbench, capfd: pytest.CaptureFixture[str]) -> Vkbench:
    """As `vkbench`, but in this process: for commands that end before anything runs."""

    def here(*words: str) -> Ended:
        code = main(list(words))
        out, err = capfd.readouterr()
        return Ended(code=code, out=out, err=err)

    return here


@cache
def trouble() -> str:
    """Why this machine has no device; "" if it has one."""
    found = end("devices", "--local")
    return found.err.strip() if found.code else ""


@pytest.fixture
def begin(vkbench: Vkbench) -> Callable[..., subprocess.Popen[str]]:
    """As `vkbench`, but it does not wait."""
    return start


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after_a_run: Path) -> Path:
    """The file of this test's database, which was used before and has no results."""
    path = tmp_path / "results.db"
    shutil.copy(after_a_run, path)
    monkeypatch.setenv("VKBENCH_DATABASE", f"sqlite:///{path}")
    return path


@pytest.fixture
def nothing_ran(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    """This machine is new to vkbench: it has no database, and no setting names one."""
    database.unlink()
    monkeypatch.delenv("VKBENCH_DATABASE")
