"""Commands of `vkbench`, run in this process, and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vkbench_cli import main as cli

Captured = pytest.CaptureFixture[str]


def run_command(capsys: Captured, *words: str, code: int = 0) -> tuple[str, str]:
    """Run a command, which has to end with a code; what it prints on stdout and stderr."""
    capsys.readouterr()
    status = cli.main(list(words))
    out, err = capsys.readouterr()
    assert status == code, out + err
    return out, err


def read_rows(capsys: Captured, *words: str) -> list[dict[str, Any]]:
    """The rows that a command prints as JSON."""
    answer = json.loads(run_command(capsys, *words, "--json")[0])
    assert answer["schema_version"] == 1
    return list(answer["rows"])
