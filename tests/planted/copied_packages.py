"""A copy of the packages, to plant something in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("", "shaders", "worker", "scheduler", "db", "local", "tables", "cli", "web")
VKBENCH = "import sys; from vkbench_cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class CopiedPackages:
    """A copy of the packages, in which commands run."""

    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run python with these words; its imports find the copy."""
        path = os.pathsep.join(str(self.folder / part) for part in PARTS)
        return subprocess.run(
            [sys.executable, *words],
            env=os.environ | {"PYTHONPATH": path},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def insert(self, path: str, text: str, *, before: str) -> None:
        """Insert text into a file of the copy, before a text that occurs once there."""
        file = self.folder / path
        source = file.read_text()
        assert source.count(before) == 1, (path, before)
        file.write_text(source.replace(before, text + before))


def copy_packages(folder: Path) -> CopiedPackages:
    """Copy the packages, without what was compiled, into a folder."""
    for part in PARTS:
        for package in (ROOT / part).glob("vkbench*"):
            if (package / "__init__.py").is_file():
                ignored = shutil.ignore_patterns("spirv", "__pycache__")
                shutil.copytree(package, folder / part / package.name, ignore=ignored)
    return CopiedPackages(folder)
