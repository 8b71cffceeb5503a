"""Devices listed by another process, whatever becomes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vkbench_worker.owner import probe
from vkbench_worker.runtime.errors import RuntimeFault

# A module that Python imports first, in the place of a driver that does the same.
DIES = "import os, signal, sys\nif 'vkbench_worker.runner.listing' in sys.orig_argv: {deed}\n"


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "a driver crashed with SIGSEGV"),
        ("sys.stderr.write('no such GPU\\n'); os._exit(9)", "exit status 9: no such GPU"),
    ],
)
def test_a_driver_that_dies_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, deed: str, words: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(DIES.format(deed=deed))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RuntimeFault, match=words):
        probe.local_devices()


def test_a_driver_that_hangs_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(DIES.format(deed="signal.pause()"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(probe, "TIMEOUT_SECONDS", 0.5)
    with pytest.raises(RuntimeFault, match=r"took over 0\.5 s: a driver hangs"):
        probe.local_devices()


def test_chatter_on_stdout_does_not_reach_the_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chatty = "import atexit\natexit.register(lambda: __import__('os').write(1, b'driver says bye'))"
    (tmp_path / "sitecustomize.py").write_text(chatty)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    with pytest.raises(RuntimeFault, match="apt install"):
        probe.local_devices()


def test_listing_loads_neither_numpy_nor_kernels() -> None:
    """Each command that chooses a device starts this process."""
    code = (
        "import sys, vkbench_worker.runner.listing; "
        "sys.exit('numpy' in sys.modules or 'vkbench_shaders' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
