"""Divides a case among devices of this machine, in a process of its own, and stores what came."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from vkbench.device import DeviceFacts
from vkbench.job import SHARDS, Mode, PlannedJob
from vkbench.messages.wire import from_builtins
from vkbench.process.user import user_name
from vkbench.result import Result
from vkbench.run import Purpose, RunKind, RunWords
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.work.devices import note_environments, store_device, store_environment
from vkbench_db.work.ended import add_ended
from vkbench_db.work.runs import create_run
from vkbench_local.compute import answers
from vkbench_worker.containment import environment
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.shards.outcome import Sharded


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """A case, the numbers of its shards, and the devices that may have some."""

    case: str
    counts: Sequence[int]
    devices: Sequence[str]  # keys
    variant: str
    bundle: str
    seconds: float  # of each timing
    pieces: int = 1  # of each shard


def shard(sharding: Sharding, limit_seconds: float, settings: Settings) -> Iterator[Sharded]:
    """What came of each number of shards, as it comes; ComputationFailed says why it does not."""
    command = contained_command(
        "vkbench_worker.runner.shards",
        *("--case", sharding.case, "--variant", sharding.variant, "--bundle", sharding.bundle),
        *("--device", *sharding.devices, "--shards", *map(str, sharding.counts)),
        *("--seconds", str(sharding.seconds), "--pieces", str(sharding.pieces)),
    )
    for line in answers(command, limit_seconds, environment.of(settings)):
        yield from_builtins(json.loads(line), Sharded)


def keep(
    database: Database,
    sharding: Sharding,
    outcomes: Sequence[Sharded],
    devices: Sequence[DeviceFacts],
    *,
    label: str,
    now: float,
) -> int:
    """Store what came as a run, a job for each number of shards; its number."""
    ended = [
        (_job(sharding, sharded), _name_worker(sharded.result, devices)) for sharded in outcomes
    ]
    with database.transaction() as tx:
        ids = [store_device(tx, facts) for facts in devices]
        for sharded in outcomes:
            store_environment(tx, sharded.environment)
        run = create_run(
            tx,
            mode=Mode.SHARDED,
            selection=asdict(sharding),
            now=now,
            track=SHARDS,
            words=RunWords(user=user_name(), label=label, purpose=Purpose(kind=RunKind.SHARD)),
        )
        add_ended(tx, run.id, ended, now)
        note_environments(tx, ids)
    return run.id


def _job(sharding: Sharding, sharded: Sharded) -> PlannedJob:
    return PlannedJob(
        device=sharded.result.device,
        case=sharded.result.case,
        mode=Mode.SHARDED,
        variant=sharded.requested,
        bundle=sharding.bundle,
        measure_seconds=sharding.seconds,
        noise=0.0,
        estimate_seconds=sharded.result.seconds,
    )


def _name_worker(result: Result, devices: Sequence[DeviceFacts]) -> Result:
    """A result with who took it, as a worker names itself."""
    return replace(result, worker=f"{devices[0].host}:{os.getpid()}")
