"""The unit of a worker that the page for GPU hosts prints: systemd takes it as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "gpu-host.md"
COMMAND = "/opt/vkbench/bin/vkbench"


def test_the_unit_of_the_page_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("systemd-analyze is not installed")
    printed = re.search(r"```ini\n# \S+/(\S+\.service)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert printed
    unit = tmp_path / printed[1]
    assert COMMAND in printed[2]
    unit.write_text(printed[2].replace(COMMAND, "/bin/true"))  # the page's is not installed here
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for line in ("User=vkbench", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert line in printed[2].splitlines()
