"""`vkbench shard`: divides a case among the devices of this machine, and times how that scales."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.errors import EXIT_OK, UsageError, WrongResult
from vkbench.job import Outcome
from vkbench_cli.options.effort import RunLabel
from vkbench_cli.options.records import Devices, KernelsOf, Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_tables.shards import ShardsRow, shards_table

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.settings import Settings
    from vkbench_db.database import Database
    from vkbench_local.shards import Sharding
    from vkbench_worker.shards.outcome import Sharded


def shard(
    *,
    case: Annotated[
        str,
        Argument(metavar="CASE", help="A case of matmul, mul_mat or flash_attn, by its name."),
    ],
    device: Devices = [],  # noqa: B006
    shards: Annotated[
        str, Option(metavar="N,N", help="How many shards there are, one number after the other.")
    ] = "1,2,4,8",
    variant: Annotated[
        str,
        Option(
            metavar="V",
            help="Variant of the kernel; 'auto' is the best one that the devices support.",
        ),
    ] = "auto",
    pieces: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            help="Each shard does its columns in N pieces, so that copies of one overlap the work "
            "on another.",
        ),
    ] = 1,
    bundle: KernelsOf = "",
    seconds: Annotated[float, Option(metavar="S", min=0.01, help="Time each for S seconds.")] = 0.5,
    limit: Annotated[float, Option(metavar="S", min=0.1, help="Give up after S seconds.")] = 600.0,
    keep: Annotated[
        bool, Option("--keep/--no-keep", help="Store the results as a run, or only show them.")
    ] = True,
    label: RunLabel = "",
    store: Store,
    output: Output,
) -> int:
    """Divide one case among the devices of this machine.

    It shows how the time scales with the number of shards. Products are divided by rows of the
    weights (of the left matrix), attention by heads. Parts are put together and judged as one
    result. `compute` is the time in which every input lies on its device and parts of the output
    stay there. `with copies` also uploads the inputs that are no weights or caches, and reads the
    output back. Where there are more shards than devices, each is timed alone on one device, and
    the slowest counts: simulated. With --pieces, a shard of a product does its columns in so many
    launches, and `with copies` uploads and reads back some of them while it works on others, on
    devices that have queues for copies. `compute` then takes those launches one after the other.

    The results are stored as a run of mode sharded, a row for each number of shards: `hot` is
    compute, `copies` is with copies, and the variant says how the case was divided. Each has a
    series of its own, with which later ones are compared, so that a slower driver is suspected.
    Changes here are confirmed only by later runs.

    \b
    vkbench shard matmul/f16:b=f16/b1_m4096_n4096_k4096
    vkbench shard flash_attn/f16/s1_h8_g8_q5_n67_d64_e64 --device 0,1 --shards 1,2
    vkbench results --run last

    Exit codes: 0 all right, 3 a wrong result.
    """
    from vkbench_local.machine import chosen_devices
    from vkbench_local.shards import Sharding
    from vkbench_local.shards import shard as begin
    from vkbench_shaders.catalogue import problem
    from vkbench_worker.shards.division import division_of

    settings = store.settings()
    posed, counts = problem(case), _counts(shards)
    for count in counts:
        division_of(posed, count, pieces)
    devices = chosen_devices(device or ["*"], settings)
    sharding = Sharding(
        case=posed.case.name,
        counts=counts,
        devices=[facts.key for facts in devices],
        variant=variant,
        bundle=bundle,
        seconds=seconds,
        pieces=pieces,
    )
    divisions: list[Sharded] = []
    with _open_database(settings) if keep else nullcontext() as database:
        try:
            divisions.extend(begin(sharding, limit, settings))
        finally:  # what came before a failure is kept
            if divisions and database:
                _store(database, sharding, divisions, devices, label)
    show(shards_table([_row(division) for division in divisions]), output)
    if any(division.is_simulated for division in divisions):
        tell("simulated: one device did all shards in turn, and the slowest counts")
    is_right = all(division.result.outcome is Outcome.PASSED for division in divisions)
    return EXIT_OK if is_right else WrongResult.exit_code


@contextmanager
def _open_database(settings: Settings) -> Iterator[Database]:
    """The database, created if need be; an error now, before the work, if it cannot be written."""
    from vkbench_db.database import Database

    with Database.open(settings.database_url(), create=True) as database:
        with database.transaction():
            pass
        yield database


def _store(
    database: Database,
    sharding: Sharding,
    divisions: Sequence[Sharded],
    devices: Sequence[DeviceFacts],
    label: str,
) -> None:
    from vkbench_cli.show.report import findings
    from vkbench_detection.steps import detect
    from vkbench_local.shards import keep

    now = time.time()
    run = keep(database, sharding, divisions, devices, label=label, now=now)
    detected = detect(database, now)
    tell(f"stored as run {run}: `vkbench results --run {run}` shows it")
    for line in findings(detected):
        tell(line)


def _row(division: Sharded) -> ShardsRow:
    return ShardsRow(
        shards=division.count,
        devices=len(division.devices),
        is_simulated=division.is_simulated,
        result=division.result,
    )


def _counts(text: str) -> list[int]:
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"malformed --shards '{text}': expected numbers such as 1,2,4")
    return counts
