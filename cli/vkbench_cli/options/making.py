"""Options of the commands that make something from a git revision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option


@dataclass(frozen=True, kw_only=True)
class MakeOptions:
    """Which revision is made, for how long at most, and what it is called."""

    revision: Annotated[
        str, Option(metavar="REV", help="Git revision: a tag, a branch, a hash.")
    ] = "HEAD"
    repository: Annotated[
        Path, Option(metavar="PATH", help="Git repository of the sources.", show_default=True)
    ] = Path()
    name: Annotated[
        str, Option(metavar="NAME", help="What to call it; default: by the tag, or the hash.")
    ] = ""
    minutes: Annotated[
        float | None,
        Option(
            metavar="M",
            min=0.01,
            help="End the command after M minutes; default: what its file says, or 60.",
        ),
    ] = None

    @property
    def limit_seconds(self) -> float | None:
        """How long the command may take; None: as long as its file says."""
        return None if self.minutes is None else self.minutes * 60
