"""The wheel of this checkout, built once for all processes of a test session."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vkbench
from copied_packages import ROOT, copy_packages
from shared_folder import shared_folder

NAME = f"vkbench-{vkbench.__version__}-py3-none-any.whl"


def wheel_of_checkout(factory: pytest.TempPathFactory) -> Path:
    """The checkout's wheel, built without an environment of its own."""
    with shared_folder(factory, "wheel") as folder:
        if not (folder / NAME).exists():
            command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        return folder / NAME


def copy_for_image(folder: Path) -> None:
    """Copy what .dockerignore lets through: no git, and no compiled kernels."""
    copy_packages(folder)
    let_through = re.findall(r"^!(.+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for file in (file for pattern in let_through for file in ROOT.glob(pattern) if file.is_file()):
        shutil.copy(file, folder)
    assert not (folder / ".gitignore").exists()
