"""What a database knows of the chosen devices, and what that says of a target.

Only a result can meet or miss a target: a timing, check or comparison of the chosen devices, bytes
counted now, or a comparison that was recorded on a GPU. Without one, a target is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from vkbench.accuracy import Subject
from vkbench.device import DeviceFacts
from vkbench.job import PEERS
from vkbench.settings import Settings
from vkbench_cli.show.telling import tell
from vkbench_cli.store import reading
from vkbench_db.ask.accuracies import AccuracyRow, accuracies
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.ask.queries import DeviceRow, devices
from vkbench_db.ask.results import ResultFilter, ResultRow, results
from vkbench_db.blank import is_blank
from vkbench_db.upkeep.tuning import TunedRow, newest_findings
from vkbench_detection.peers.pairs import PeerPair, peer_pairs

CUDA_PEER: Final = "torch"  # the peer that computes by CUDA on NVIDIA's GPUs


class TargetState(StrEnum):
    """Whether a target is met."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """The state of a target, with what was measured."""

    standing: TargetState
    measured: str = ""
    value: float | None = None  # the same for programs
    how: str = ""  # from which results; or the command that would measure it


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured: the newest result of each piece of work of the chosen devices."""

    results: Sequence[ResultRow]
    devices: Mapping[str, DeviceFacts] = field(default_factory=dict)  # by key
    tuned: Sequence[TunedRow] = ()  # the fastest configurations that sweeps found
    host: str = ""  # that this process runs on, where it times numpy
    of_fleet: bool = False  # whether the devices may be of other hosts
    losses: Sequence[AccuracyRow] = ()  # the newest of each, of models
    pairs: Sequence[PeerPair] = ()  # the latest comparisons with CUDA_PEER on these devices

    @property
    def gpus(self) -> set[str]:
        """Keys of the devices that are no CPU drivers."""
        return {key for key, facts in self.devices.items() if facts.type != "cpu"}

    @property
    def submits(self) -> str:
        """The options by which a command measures on a fleet."""
        return " --submit --device '*'" if self.of_fleet else ""

    def command(self, words: str) -> str:
        """The command that does something on these devices."""
        return f"`vkbench {'submit' if self.of_fleet else 'run'}{words}`"

    def timing(self, *cases: str) -> str:
        """The command that times cases on these devices."""
        chosen = "".join(f" --case {case}" for case in cases)
        return self.command(f"{chosen} --mode performance")


Find = Callable[[Evidence], TargetResult]


def not_measured(how: str) -> TargetResult:
    """The result of a target without a measurement: how to make one."""
    return TargetResult(standing=TargetState.NOT_MEASURED, how=how)


def met(is_met: bool) -> TargetState:
    """The state of a target that was measured."""
    return TargetState.MET if is_met else TargetState.MISSED


def read_evidence(ours: Settings, selectors: Sequence[str]) -> Evidence:
    """Read what was measured on the devices that selectors choose, without any on this host's."""
    with reading(ours) as tx:
        if is_blank(tx):
            tell(f"no results yet: `vkbench {'submit' if selectors else 'run'}` makes some")
            return Evidence(results=(), host=ours.host, of_fleet=bool(selectors))
        known = {row.key: row for row in devices(tx)}
        chosen = device_keys(tx, selectors) if known else []
        keys = [key for key in chosen if selectors or known[key].host == ours.host]
        newest = results(tx, ResultFilter(device=keys), limit=None) if keys else []
        evidence = Evidence(
            results=[row for row in newest if row.track != PEERS],
            devices={key: known[key].facts for key in keys},
            tuned=newest_findings(tx, keys) if keys else (),
            losses=[row for row in accuracies(tx) if row.subject == Subject.MODEL],
            pairs=[pair for pair in peer_pairs(tx, [CUDA_PEER]) if pair.device in keys],
            host=ours.host,
            of_fleet=any(known[key].host != ours.host for key in keys),
        )
    if not keys:
        _tell_why_no_device(ours.host, list(known.values()))
    return evidence


def _tell_why_no_device(host: str, known: Sequence[DeviceRow]) -> None:
    if not known:
        tell("no device is known yet: `vkbench run` measures on this machine's")
        return
    hosts = ", ".join(sorted({row.host for row in known}))
    tell(f"no devices of this host ({host}), only of {hosts}: --device '*' takes all")
