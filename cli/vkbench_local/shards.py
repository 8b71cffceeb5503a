"""Divides a case among devices of this machine, in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vkbench.settings import Settings
from vkbench_local.compute import answers
from vkbench_worker.containment import environment
from vkbench_worker.containment.command import contained


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """A case, the numbers of its shards, and the devices that may have some."""

    case: str
    counts: Sequence[int]
    devices: Sequence[str]  # keys
    variant: str
    bundle: str
    seconds: float  # of each timing


def shard(
    asked: Sharding, limit_seconds: float, settings: Settings
) -> Iterator[Mapping[str, object]]:
    """What came of each number of shards, as it comes; ComputationFailed says why it does not."""
    command = contained(
        "vkbench_worker.runner.shards",
        *("--case", asked.case, "--variant", asked.variant, "--bundle", asked.bundle),
        *("--device", *asked.devices, "--shards", *map(str, asked.counts)),
        *("--seconds", str(asked.seconds)),
    )
    yield from map(json.loads, answers(command, limit_seconds, environment.of(settings)))
