"""Which peers a selection compares its timed cases with."""

from __future__ import annotations

from vkbench import names
from vkbench.case import is_model, is_own
from vkbench.errors import UsageError
from vkbench.job import Mode
from vkbench.peers import BY_NAME
from vkbench_scheduler.planning.selection import AUTO, Selection


def peers_of(selection: Selection) -> tuple[str, ...]:
    """The peers that are asked for, each once; UsageError where nothing can be compared."""
    if not selection.peers:
        return ()
    if selection.model or selection.own:
        raise UsageError(
            "--peer compares kernels of the catalogue: leave out --model, --kernel-file"
        )
    if selection.mode is Mode.CORRECTNESS:
        raise UsageError("--peer compares timings: leave out --mode correctness")
    if selection.variant.casefold() != AUTO:
        raise UsageError("--peer compares the best code path with others: leave out --variant")
    return tuple(dict.fromkeys(names.pick(name, BY_NAME, "peer") for name in selection.peers))


def has_peers(case: str) -> bool:
    """Whether a case is of the catalogue: no peer does anything else."""
    return not is_model(case) and not is_own(case)
