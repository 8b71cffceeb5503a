"""Drivers that leave parts of Vulkan out, as MoltenVK does, are listed; the loader hides them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from vkbench.messages import wire
from vkbench_worker.protocol import Listing


def test_a_driver_that_calls_itself_portable_is_listed(
    drivers: dict[str, str], tmp_path: Path
) -> None:
    manifest = json.loads(Path(drivers["llvmpipe"]).read_text())
    manifest["ICD"]["is_portability_driver"] = True
    (tmp_path / "driver.json").write_text(json.dumps(manifest))
    environ = {**os.environ, "VK_DRIVER_FILES": str(tmp_path / "driver.json")}
    command = [sys.executable, "-m", "vkbench_worker.runner.listing"]
    done = subprocess.run(command, capture_output=True, check=True, env=environ, timeout=60)
    devices = wire.decode(done.stdout, Listing).devices
    assert ["llvmpipe" in device.facts.name for device in devices] == [True]
