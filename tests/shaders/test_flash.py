"""Partitions and tiles of attention hold all there is, and fit what a device has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.kernels.attention import flash, flash_coop, flash_few, flash_plan, unfused
from vkbench_shaders.kernels.attention.flash_plan import Block, Split, Tiles
from vkbench_shaders.tuning.configurations import obstacle

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a device", uuid="00", vendor_id=0, device_id=0,
    type="cpu", memory_bytes=1 << 40, subgroup_size=32, features=(),
    limits={
        "max_storage_range": 1 << 32, "max_shared_bytes": 49152, "max_workgroup_invocations": 1024,
    },
)  # fmt: skip
SMALL = replace(DEVICE, subgroup_size=4, limits={**DEVICE.limits, "max_shared_bytes": 16384})


def with_shared(size: int) -> DeviceFacts:
    return replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": size})


@pytest.mark.parametrize("device", [DEVICE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("kernel", ["flash_attn", "sdpa"])
def test_partitions_cover_all_positions_and_tiles_all_rows(
    kernel: str, device: DeviceFacts
) -> None:
    found = kernel_named(kernel)
    for case in (*found.cases, *found.timed):
        posed = Problem(found, case)
        plan = (
            flash_plan.plan(posed, device)
            if kernel == "flash_attn"
            else unfused.plan(posed, device)
        )
        parts = flash_plan.parts(posed, plan)
        assert (parts - 1) * plan.part < posed.shape["n"] <= parts * plan.part
        assert plan.part % (plan.positions if isinstance(plan, Tiles) else 1) == 0
        rows = flash_plan.group_rows(posed)
        assert rows <= flash_plan.padded_rows(posed, plan) < rows + plan.rows


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("h32_g8_q1_n4096_d128_e128", Split),
        ("h64_g8_q4_n7680_d64_e64", Split),
        ("h32_g8_q512_n4096_d128_e128", Tiles),
        ("h16_g16_q5776_n5776_d72_e72", Tiles),
        ("h8_g8_q512_n64_d64_e513", Split),  # longer than any tile takes
    ],
)
def test_few_queries_are_split_and_many_make_tiles(shape: str, kind: type[Split | Tiles]) -> None:
    assert isinstance(flash_plan.plan(problem(f"flash_attn/f16/s1_{shape}"), DEVICE), kind)


@pytest.mark.parametrize(
    ("case", "shares"),
    [
        ("q8_0/s1_h32_g2_q1_n128_d256_e256", 2),
        ("f16/s1_h32_g2_q1_n256_d256_e256", 4),
        ("f16/s1_h64_g4_q1_n256_d128_e128", 2),
        ("f16/s1_h32_g2_q1_n64_d128_e128", 1),  # too few positions
        ("q8_0/s1_h32_g2_q1_n256_d256_e256", 0),  # too much to decode for each row
        ("f16/s8_h32_g2_q1_n64_d128_e128", 0),  # more rows than units
    ],
)
def test_few_positions_are_one_launch(case: str, shares: int) -> None:
    found = flash_plan.split(problem(f"flash_attn/{case}"), replace(DEVICE, compute_units=132))
    assert found.shares * found.is_whole == shares


@pytest.mark.parametrize(("d", "rows"), [(64, 8), (576, 8), (2048, 2), (4096, 1)])
def test_a_split_has_as_many_rows_as_shared_memory_holds(d: int, rows: int) -> None:
    posed = problem(f"flash_attn/f16/s1_h16_g1_q1_n4096_d{d}_e64")
    assert flash_plan.split(posed, with_shared(32768)).rows == rows
    assert flash.refuses(posed, with_shared(32768)) is None


@pytest.mark.parametrize("device", [DEVICE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("e", [1024, 1032, 4096])
@pytest.mark.parametrize("d", [16, 576])
def test_sums_of_several_rounds_leave_weights_in_place(device: DeviceFacts, d: int, e: int) -> None:
    posed = problem(f"flash_attn/f16/s1_h16_g1_q1_n4096_d{d}_e{e}")
    found = flash_plan.split(posed, device)
    rounds = -(-e // 8 // found.threads)
    assert (found.pool - 8 * found.threads >= found.rows * found.part) is (rounds > 1)
    assert found.shared <= device.limits["max_shared_bytes"]


@pytest.mark.parametrize(
    "block", flash_plan.BLOCKS, ids=lambda block: f"{block.entry}-{block.threads}"
)
def test_a_block_is_whole_patches_and_fits_small_devices_or_has_another(block: Block) -> None:
    """Threads load whole steps, patches make whole tiles."""
    assert block.threads * 4 * block.m * 4 * block.n == block.rows * block.positions
    assert block.threads * 4 * block.m * 4 * block.e == block.rows * block.width
    assert block.step * (block.rows + block.positions) // 4 <= 8 * block.threads
    others = [other for other in flash_plan.BLOCKS if other.width == block.width]
    assert min(other.stage for other in others) * 16 <= 16384


def test_heads_that_are_too_large_or_uneven_are_refused() -> None:
    large = problem("flash_attn/f16/s1_h1_g1_q1_n1_d8192_e8")
    assert "of shared memory" in str(flash.refuses(large, with_shared(16384)))
    for name in ("flash_attn", "sdpa"):
        posed = problem(f"{name}/f16/s1_h3_g2_q1_n1_d8_e8")
        reasons = [v.refuses(posed, DEVICE) for v in posed.kernel.variants]
        assert reasons == ["3 heads cannot share 2 evenly"] * len(reasons)
    tall = problem("flash_attn/f16/s1_h1_g1_q1_n1_d8_e600/path=tiles")
    assert "no tile is for values of 600" in str(flash.refuses(tall, DEVICE))


def test_lanes_share_the_work_as_far_as_subgroups_go() -> None:
    posed = problem("flash_attn/f16/s1_h1_g1_q1_n9_d40_e40")
    assert [flash_plan.split(posed, d).lanes for d in (DEVICE, SMALL)] == [8, 4]
    assert [flash_plan.split(posed, d).fours for d in (DEVICE, SMALL)] == [16, 16]


GPU = replace(DEVICE, features=("matrix_f16_f32",), subgroup_size=32, compute_units=132)
CPU = replace(GPU, features=("matrix_f16_f32_8x8x8",), subgroup_size=8)


@pytest.mark.parametrize(
    ("device", "shape", "suits"),
    [
        (GPU, "s1_h32_g8_q512_n512_d128_e128", True),
        (GPU, "s1_h32_g1_q4_n512_d128_e128", False),
        (GPU, "s1_h8_g8_q1_n2048_d128_e128", True),  # in one launch
        (GPU, "s1_h8_g8_q1_n4096_d64_e64", True),
        (GPU, "s1_h32_g32_q1_n2048_d64_e64", False),  # in two
        (GPU, "s1_h32_g8_q1_n4096_d128_e128", True),
        (GPU, "s1_h32_g8_q1_n320_d128_e128", True),
        (GPU, "s8_h32_g8_q1_n256_d128_e128", True),
        (GPU, "s1_h32_g8_q1_n256_d128_e128", True),
        (GPU, "s1_h32_g8_q1_n128_d256_e256", False),  # a workgroup for each row
        (GPU, "s1_h8_g8_q1_n4096_d128_e128", False),
        (GPU, "s1_h32_g8_q1_n4096_d512_e512", False),
        (CPU, "s1_h32_g8_q1_n4096_d64_e64", False),
        (CPU, "s1_h32_g8_q512_n512_d128_e128", False),
    ],
)
def test_matrices_suit_prompts_and_shared_heads_on_gpus(
    device: DeviceFacts, shape: str, suits: bool
) -> None:
    posed = problem(f"flash_attn/f16/{shape}")
    assert flash_coop.VARIANT.choice.suits(posed, device) is suits


@pytest.mark.parametrize(
    ("case", "entry"),
    [
        ("s1_h32_g32_q4096_n4096_d128_e128", "flash_whole_128_plain"),
        ("s1_h32_g32_q4096_n4096_d128_e128/mask=causal", "flash_whole_128"),
        ("s1_h32_g32_q4096_n4096_d128_e128/softcap=30.0", "flash_whole_128"),
        ("s1_h32_g8_q512_n4096_d128_e128/mask=causal", "flash_whole_128"),
        ("s1_h32_g8_q4096_n4096_d64_e64", "flash_whole_64"),
        ("s1_h32_g32_q4096_n4096_d128_e128/sinks=yes", "flash_coop_128_plain"),
        ("s1_h32_g32_q4096_n4096_d128_e128/scale=-1.0", "flash_coop_128_plain"),
        ("s1_h32_g32_q4096_n4096_d128_e128/layout=strided", "flash_coop_128_plain"),
        ("s1_h32_g32_q4095_n4096_d128_e128", "flash_coop_128_plain"),
        ("s1_h32_g32_q4096_n4095_d128_e128", "flash_coop_128_plain"),
        ("s1_h32_g32_q4096_n4096_d128_e128/mask=causal,sinks=yes", "flash_coop_128"),
    ],
)
def test_whole_tiles_have_an_entry_of_their_own(case: str, entry: str) -> None:
    chosen = flash_coop.plan(problem(f"flash_attn/f16/{case}"), GPU)
    assert chosen.tiles.entry == entry


@pytest.mark.parametrize(
    ("case", "device", "entry"),
    [
        ("s1_h32_g2_q1_n20000_d256_e256", GPU, "flash_few_256"),
        ("s1_h8_g8_q1_n4096_d72_e64", GPU, "flash_few_128"),
        ("s1_h8_g8_q4_n4096_d64_e64", GPU, "flash_few_64"),
        ("s1_h8_g8_q4_n4096_d64_e64", CPU, "flash_few_64_small"),
        ("s1_h8_g8_q40_n4096_d64_e64/path=split", GPU, "flash_few_64"),
        ("s1_h64_g8_q1_n256_d128_e128", GPU, "flash_short_128"),
        ("s1_h64_g8_q1_n256_d64_e64", GPU, "flash_short_64"),
        ("s1_h64_g8_q1_n257_d128_e128", GPU, "flash_few_128"),  # too many keys for all workgroups
        ("s4_h64_g8_q1_n256_d256_e256", GPU, "flash_few_256"),  # too many workgroups
        ("s1_h64_g8_q1_n64_d128_e128", GPU, "flash_few_128"),  # one partition: one launch too
        ("s1_h64_g8_q1_n1024_d256_e256/path=short", GPU, "flash_short_256"),
        ("s1_h20_g1_q1_n4096_d576_e512", GPU, "flash_halves"),
        ("s1_h8_g8_q40_n4096_d64_e64", GPU, "flash_coop_64"),
        ("s1_h8_g8_q4_n4096_d64_e64/path=tiles", GPU, "flash_coop_64"),
    ],
)
def test_few_queries_are_split_on_matrices_too(case: str, device: DeviceFacts, entry: str) -> None:
    first, *_ = flash_coop.VARIANT.launches(problem(f"flash_attn/f16/{case}"), device)
    assert first.entry == entry


@pytest.mark.parametrize(
    ("case", "entries"),
    [
        ("f16:v=q8_0/s1_h2_g2_q256_n256_d64_e64", {"flash_halves", "flash_whole_64"}),
        ("q8_0:v=f16/s1_h2_g2_q256_n256_d64_e64", {"flash_halves", "flash_whole_64"}),
        ("q8_0:v=q4_0/s1_h64_g8_q1_n256_d64_e64", {"flash_halves", "flash_coop_64"}),
    ],
)
def test_keys_and_values_of_two_formats_become_halves_for_tiles(
    case: str, entries: set[str]
) -> None:
    posed = problem(f"flash_attn/{case}")
    launched = {launch.entry for launch in flash_coop.VARIANT.launches(posed, GPU)}
    assert launched - {"flash_combine"} == entries
    by_split = problem(f"flash_attn/{case}/path=split")
    reason = flash_few.refuses(by_split, 16)
    assert reason == "path=split is for keys and values of one format"


@pytest.mark.parametrize(
    ("case", "wide"),
    [
        ("f16:v=q8_0/s1_h1_g1_q1_n2_d16_e32", True),
        ("f16:v=q8_0/s1_h1_g1_q1_n2_d13_e32", False),  # keys begin anywhere
        ("q8_0:v=f16/s1_h1_g1_q1_n2_d32_e7", False),
        ("q8_0:v=q4_0/s1_h1_g1_q1_n2_d32_e32/layout=strided", True),
    ],
)
def test_rows_without_blocks_say_how_wide_they_are_read(case: str, wide: bool) -> None:
    assert flash.is_wide(problem(f"flash_attn/{case}")) is wide


@pytest.mark.parametrize(
    ("case", "entry", "groups", "count"),
    [
        ("f16/s1_h64_g8_q1_n256_d128_e128", "flash_short_128", (4, 1, 8), 1),
        ("f16/s1_h64_g8_q1_n1024_d128_e128", "flash_few_128", (1, 16, 8), 1),
        ("f16/s1_h64_g8_q1_n1025_d128_e128", "flash_few_128", (1, 9, 8), 1),  # not all at once
        ("f16/s1_h64_g8_q1_n100_d64_e64", "flash_few_64", (1, 1, 8), 1),
        ("f16/s1_h64_g8_q1_n4096_d64_e64", "flash_few_64", (1, 32, 8), 1),
        ("f16/s1_h64_g8_q1_n4224_d64_e64", "flash_few_64", (1, 33, 8), 2),  # too many rows
        ("f16/s1_h32_g32_q1_n1025_d64_e64", "flash_few_64", (1, 9, 32), 2),  # too many partitions
        ("q8_0/s1_h64_g8_q1_n2048_d64_e64", "flash_few_64", (1, 32, 8), 1),  # decoding takes longer
        ("f16/s1_h32_g2_q1_n256_d256_e256", "flash_short_256", (8, 1, 2), 1),
        ("f16/s1_h32_g2_q1_n512_d256_e256", "flash_short_256", (8, 4, 2), 1),
        ("f16/s1_h32_g2_q1_n2048_d256_e256", "flash_short_256", (8, 8, 2), 1),
        ("f16/s1_h32_g2_q1_n2049_d256_e256", "flash_few_256", (1, 33, 2), 2),
        ("q8_0/s1_h32_g2_q1_n128_d256_e256", "flash_short_256", (8, 1, 2), 1),
        ("q8_0/s1_h32_g2_q1_n256_d256_e256", "flash_short_256", (8, 2, 2), 1),
        ("f16/s1_h32_g2_q1_n100_d64_e64/path=joined,sinks=yes", "flash_few_64", (1, 2, 2), 1),
        ("f16/s1_h32_g2_q1_n100_d64_e64/part=32,path=split", "flash_few_64", (1, 4, 2), 2),
    ],
)
def test_the_last_partition_joins_all_where_that_is_faster(
    case: str, entry: str, groups: tuple[int, int, int], count: int
) -> None:
    first, *others = flash_coop.VARIANT.launches(problem(f"flash_attn/{case}"), GPU)
    assert (first.entry, first.groups, 1 + len(others)) == (entry, groups, count)


@pytest.mark.parametrize(
    "case", ["n4096_d64_e64/path=joined", "n700_d256_e256/part=128,path=short"]
)
def test_each_tile_that_is_joined_has_a_counter(case: str) -> None:
    """And each share of its values."""
    posed = problem(f"flash_attn/f16/s2_h64_g2_q1_{case}")
    (launch,) = flash_coop.VARIANT.launches(posed, GPU)
    across, _, groups = launch.groups
    assert flash_coop.VARIANT.own.counters(posed, GPU) == across * groups


@pytest.mark.parametrize(("device", "least"), [(GPU, 64), (CPU, 32)])
def test_partitions_on_matrices_are_whole_steps(device: DeviceFacts, least: int) -> None:
    """One that has all positions needs no second launch, unless there are sinks."""
    posed = problem("flash_attn/f16/s1_h8_g2_q1_n100_d64_e64/path=split")
    offered = [each["part"] for each in posed.candidates(device, flash_coop.VARIANT)]
    assert offered == [least * steps for steps in (1, 2, 3, 4)]
    for part in offered:
        for sinks in ("no", "yes"):
            name = f"flash_attn/f16/s1_h8_g2_q1_n100_d64_e64/part={part},path=split,sinks={sinks}"
            launches = flash_coop.VARIANT.launches(problem(name), device)
            assert len(launches) == (1 if int(part) >= 100 and sinks == "no" else 2)


def test_a_partition_that_no_workgroup_takes_is_refused() -> None:
    able = replace(GPU, features=(*GPU.features, *flash_coop.VARIANT.requires))
    posed = problem("flash_attn/f16/s1_h8_g2_q1_n100_d64_e64/part=65,path=split")
    assert "cannot have part=65" in obstacle(posed, flash_coop.VARIANT, able)
    wide = problem("flash_attn/f16/s1_h8_g2_q1_n100_d257_e64/path=split")
    assert "up to 256 numbers" in str(flash_coop.VARIANT.refuses(wide, GPU))


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("n5000_d64_e64/part=64,path=joined", "256 numbers and 64 partitions"),
        ("n1025_d64_e64/path=short", "256 numbers and 1024 positions of a workgroup"),
        ("n100_d64_e64/part=1,path=short", "cannot have part=1"),
        ("n100_d64_e64/part=100,path=joined", "cannot have part=100"),
    ],
)
def test_partitions_that_no_workgroup_joins_are_refused(case: str, reason: str) -> None:
    able = replace(GPU, features=(*GPU.features, *flash_coop.VARIANT.requires))
    posed = problem(f"flash_attn/f16/s1_h8_g2_q1_{case}")
    assert reason in str(obstacle(posed, flash_coop.VARIANT, able))
