"""The columns that docs/views.md lists."""

from __future__ import annotations

import re
from pathlib import Path


def documented_columns(page: Path, heading: str = "# ") -> list[str]:
    """The names in the first column of the table below a heading, sorted."""
    section = page.read_text().partition(heading)[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))
