"""`vkbench shard`: a case divided among the devices of this machine."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from vkbench.errors import EXIT_OK, UsageError, WrongResult
from vkbench.settings import settings
from vkbench_cli.options import Devices, KernelsOf
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell


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
    bundle: KernelsOf = "",
    seconds: Annotated[float, Option(metavar="S", min=0.01, help="Time each for S seconds.")] = 0.5,
    limit: Annotated[float, Option(metavar="S", min=0.1, help="Give up after S seconds.")] = 600.0,
    output: Output,
) -> int:
    """Divide one case among the devices of this machine.

    It shows how the time scales with the number of shards. Products are divided by rows of the
    weights (of the left matrix), attention by heads. Parts are put together and judged as one
    result. `compute` is the time in which every input lies on its device and parts of the output
    stay there. `with copies` also uploads the inputs that are no weights or caches, and reads the
    output back. Where there are more shards than devices, each is timed alone on one device, and
    the slowest counts: simulated. Nothing is stored.

    \b
    vkbench shard matmul/f16:b=f16/b1_m4096_n4096_k4096
    vkbench shard flash_attn/f16/s1_h8_g8_q5_n67_d64_e64 --device 0,1 --shards 1,2

    Exit codes: 0 all right, 3 a wrong result.
    """
    from vkbench_local.machine import chosen_devices
    from vkbench_local.shards import Sharding, shard
    from vkbench_shaders.catalogue import problem
    from vkbench_tables.shards import shards_table
    from vkbench_worker.shards.division import division_of

    ours = settings()
    posed, counts = problem(case), _counts(shards)
    for count in counts:
        division_of(posed, count)
    asked = Sharding(
        case=posed.case.name,
        counts=counts,
        devices=[facts.key for facts in chosen_devices(device or ["*"], ours)],
        variant=variant,
        bundle=bundle,
        seconds=seconds,
    )
    said = list(shard(asked, limit, ours))
    show(shards_table(posed.case.name, said), output)
    if any(each["simulated"] for each in said):
        tell("simulated: one device did all shards in turn, and the slowest counts")
    return EXIT_OK if all(each["passed"] for each in said) else WrongResult.exit_code


def _counts(text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise UsageError(f"malformed --shards '{text}': expected numbers such as 1,2,4")
    return found
