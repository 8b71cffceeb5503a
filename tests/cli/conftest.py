"""A planted machine, a database with two of its runs, a full disk, and a user who types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from full_disk import full_disk
from planted_machine import database, planted
from planted_runs import filled, past, planted_regression
from vkbench_cli.main import main

__all__ = ["database", "filled", "full_disk", "past", "planted", "planted_regression"]


@pytest.fixture
def type_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Type a command of a user whose data folder is empty at first."""
    monkeypatch.setenv("VKBENCH_DATA", str(tmp_path / "data"))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run
