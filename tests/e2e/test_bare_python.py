"""Commands on a device, by Pythons that lack what Windows' and macOS' lack, runners included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Vkbench = Callable[..., Any]

# What every Python imports that has this on its path.
MACOS = """
import os
for name in ("sched_getaffinity", "waitid"): delattr(os, name)
"""
WINDOWS = """
import sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"): sys.modules[name] = None
"""
RUN = ("run", "--case", "add/i32:b=i32/b1_c1_h1_w1", "--mode", "correctness")


@pytest.mark.usefixtures("nothing_ran")
@pytest.mark.parametrize(
    ("words", "lacking"),
    [
        (("doctor",), MACOS + WINDOWS),
        (("devices",), MACOS + WINDOWS),
        (RUN, MACOS),
    ],
    ids=["doctor", "devices", "run"],
)
def test_commands_do_without_it(
    vkbench: Vkbench, tmp_path: Path, words: tuple[str, ...], lacking: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(lacking)
    own = {"VKBENCH_DATA": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    ended = vkbench(*words, **own, VKBENCH_SANDBOX="off")
    assert ended.code == 0, ended.err
    assert ended.out.strip()
