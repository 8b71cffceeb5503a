"""The command that runs a module in a contained process."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def contained(
    module: str, *arguments: str, reads: Iterable[Path] = (), writes: Iterable[Path] = ()
) -> list[str]:
    """Run a module contained; it may read and write more than runners do.

    -P: the folder where a user happens to stand is neither searched for modules nor read.
    """
    more = [*(f"--read={path}" for path in reads), *(f"--write={path}" for path in writes)]
    enter = "vkbench_worker.containment.enter"
    return [sys.executable, "-P", "-m", enter, *more, module, *arguments]
