"""A driver that is built from revisions, as a TOML file declares it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from vkbench.programs.build import Commit
from vkbench.programs.program import Recipe, is_driver_name


@dataclass(frozen=True, kw_only=True)
class DriverRecipe(Recipe):
    """How a driver is built from a clean checkout of its sources."""

    icd: str = ""  # name of its manifest below the folder, with *; "": the only *icd*.json there

    @property
    def sha(self) -> str:
        """SHA-256 of what it says: another recipe makes a revision anew."""
        return hashlib.sha256(f"{self.command}\0{self.folder}\0{self.icd}".encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class DeclaredDriver:
    """A driver that is built from revisions; its fields are those of its TOML file."""

    name: str
    build: DriverRecipe

    def name_commit(self, commit: Commit) -> str:
        """What the driver of a commit is called: by its tag, or by its hash."""
        by_tag = f"{self.name}-{commit.name}"
        return by_tag if is_driver_name(by_tag) else f"{self.name}-{commit.sha[:10]}"
