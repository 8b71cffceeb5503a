"""Which peers a selection compares its timed cases with."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.case import is_model, is_own
from vkbench.errors import UsageError
from vkbench.job import CHECKS
from vkbench.peers import BY_NAME
from vkbench.words import names
from vkbench_scheduler.planning.selection import AUTO, Selection


def peers_of(selection: Selection) -> tuple[str, ...]:
    """The peers that a selection names, each once; UsageError if it cannot be compared."""
    if not selection.peers:
        return ()
    if selection.own:
        raise UsageError("--peer compares kernels of the catalogue alone: leave it out")
    if selection.mode in CHECKS:
        raise UsageError("--peer compares timings: leave out --mode correctness and --property")
    if selection.variant.casefold() != AUTO:
        raise UsageError("--peer compares the best code path with others: leave out --variant")
    peers = dict.fromkeys(names.pick(name, BY_NAME, "peer") for name in selection.peers)
    if selection.model and (lacking := [name for name in peers if not BY_NAME[name].models]):
        raise UsageError(f"{' and '.join(lacking)} cannot run whole models: leave out --model")
    return tuple(peers)


def peers_for(case: str, peers: Sequence[str]) -> list[str]:
    """The peers that can run the case: few run models, none runs a user's kernel."""
    if is_own(case):
        return []
    return [name for name in peers if BY_NAME[name].models or not is_model(case)]
