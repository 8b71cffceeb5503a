"""What a device tells of itself through programs of its platform."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.device import NVIDIA
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.timing.telemetry import read

CARD = replace(NullDevice().facts, type="discrete", vendor_id=NVIDIA, uuid="0c" * 16)


def test_an_idle_device_tells_that_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '345, 2619, 31, [N/A], 0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read(CARD, "") == {
        "sm_mhz": 345,
        "memory_mhz": 2619,
        "temperature_c": 31,
        "utilisation_percent": 0,
    }
