"""The command that runs a module in a contained process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vkbench.process.interpreter import python


def contained_command(
    module: str, *arguments: str, reads: Iterable[Path] = (), writes: Iterable[Path] = ()
) -> list[str]:
    """Run a module contained; it may read and write more than runners do."""
    more = [*(f"--read={path}" for path in reads), *(f"--write={path}" for path in writes)]
    enter = "vkbench_worker.containment.enter"
    return python("-m", enter, *more, module, *arguments)
