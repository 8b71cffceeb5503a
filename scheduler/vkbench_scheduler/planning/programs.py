"""Plans of a program's build: which cases it is asked for, and what a selection may not say."""

from __future__ import annotations

from vkbench.errors import UsageError
from vkbench.job import Mode
from vkbench_scheduler.planning.selection import AUTO, Selection


def check_program(selection: Selection) -> None:
    """UsageError where a selection asks a program for what only vkbench's kernels have."""
    if not selection.program:
        return
    if selection.own or selection.model or selection.weights:
        raise UsageError(
            "--build runs cases of the catalogue: leave out --kernel-file, --model and --gguf"
        )
    if selection.peers or selection.variant.casefold() != AUTO:
        raise UsageError("--build has no code paths or peers: leave out --variant and --peer")
    if selection.mode is Mode.BATCH:
        raise UsageError("--build is checked and timed: leave out --property")
