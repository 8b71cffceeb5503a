"""Keeps files in which users declared something: NAME.toml each, as its user wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vkbench.errors import VkbenchError
from vkbench.process.plain_file import open_plain, replace_file

_MODE: Final = 0o644


@dataclass(frozen=True, kw_only=True)
class DeclaredFiles:
    """The declarations of one kind that are kept on a machine."""

    folder: Path
    what: str  # plural, for people: "programs"

    def list_names(self) -> list[str]:
        """The names of all that were kept, in order."""
        return sorted(path.stem for path in self.folder.glob("*.toml"))

    def place_of(self, name: str) -> Path:
        """Where the declaration of a name is, or would be, kept."""
        return self.folder / f"{name}.toml"

    def keep(self, path: Path, name: str) -> None:
        """Keep a copy of a file under a name; what had that name is replaced."""
        with open_plain(path) as file:
            text = file.read()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.place_of(name), text, _MODE)
        except OSError as error:
            raise VkbenchError(f"{self.what} cannot be kept in {self.folder}: {error}") from error

    def remove(self, name: str) -> None:
        """Forget the declaration of a name."""
        self.place_of(name).unlink(missing_ok=True)
