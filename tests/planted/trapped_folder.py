"""A folder with a file for each module that a process might import; each file notes that it ran."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

# Imported by names that no distribution has: those that Celery and Python look for by themselves.
_WANTED = ("celeryconfig", "sitecustomize", "usercustomize")
_TRAP = "open({note!r}, 'a').write(__name__ + '\\n')\nraise ImportError('from the wrong folder')\n"


class TrappedFolder:
    """A folder where a user might stand, full of files of somebody else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._note = folder / "ran.txt"
        folder.mkdir()
        trap = _TRAP.format(note=str(self._note))
        for name in {*sys.stdlib_module_names, *packages_distributions(), *_WANTED}:
            (folder / f"{name.partition('.')[0]}.py").write_text(trap)

    @property
    def ran(self) -> list[str]:
        """The modules that were run out of this folder."""
        return self._note.read_text().splitlines() if self._note.exists() else []
