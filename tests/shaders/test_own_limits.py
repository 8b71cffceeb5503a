"""Limits of devices in formulas, and conditions without which a variant is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planted_devices import hopper
from planted_tree import CASE, write_declaration, write_tree
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.bundle import Bundle, CorruptBundle
from vkbench_shaders.own.building import Built, build
from vkbench_shaders.own.posing import pose_case
from vkbench_shaders.tuning.configurations import obstacle

pytestmark = pytest.mark.usefixtures("glslang")
THREADS = "THREADS = 32 }"
BY_LIMIT = {THREADS: 'THREADS = "min(256, max_shared_bytes // 256)" }'}


def built_from(tmp_path: Path, declared: dict[str, str]) -> Built:
    path = write_declaration(tmp_path / "lab", declared)
    return build(path, "somebody", sources=write_tree(tmp_path / "tree"))


def device(**limits: int) -> DeviceFacts:
    facts = hopper()
    return replace(facts, name="GPU", limits={**facts.limits, **limits})


def refusal(built: Built, facts: DeviceFacts) -> str:
    bundle = Bundle(text=built.bundle.text, blobs=built.bundle.blobs).check()
    posed = pose_case(bundle, CASE)
    return obstacle(posed, posed.kernel.variants[0], facts)


def test_a_launch_is_worked_out_for_each_size_of_a_limit(tmp_path: Path) -> None:
    """A device between two sizes has the smaller one's, which it can do."""
    built = built_from(tmp_path, BY_LIMIT)
    posed = pose_case(Bundle(text=built.bundle.text, blobs=built.bundle.blobs), CASE)
    variant = posed.kernel.variant("glsl")
    for size, threads in ((16384, 64), (32768, 128), (40000, 128), (49152, 192), (1 << 20, 256)):
        [launch] = variant.launches(posed, device(max_shared_bytes=size))
        assert launch.constants["THREADS"] == threads
        assert launch.groups[0] == -(-200 // threads)
    [case] = built.kernel.cases
    kept = [one.least["max_shared_bytes"] for one in case.steps("glsl")[0].by_limits]
    assert kept == [65536, 49152, 32768, 16384]  # larger ones have the same launch
    assert variant.refuses(posed, device(max_shared_bytes=99)) == (
        "is declared for larger limits, and GPU has max_shared_bytes 99"
    )


def test_a_limit_and_the_size_of_subgroups_go_together(tmp_path: Path) -> None:
    given = '"min(max_workgroup_invocations // 4, 2 * subgroup_size)" }'
    built = built_from(tmp_path, {THREADS: f"THREADS = {given}"})
    posed = pose_case(Bundle(text=built.bundle.text, blobs=built.bundle.blobs), CASE)
    for subgroup, most, threads in ((32, 128, 32), (32, 256, 64), (128, 1024, 256), (4, 256, 8)):
        facts = replace(device(max_workgroup_invocations=most), subgroup_size=subgroup)
        [launch] = posed.kernel.variant("glsl").launches(posed, facts)
        assert launch.constants["THREADS"] == threads


@pytest.mark.parametrize(
    ("where", "limits", "said"),
    [
        ("max_shared_bytes >= 1000 * THREADS + 1", {"max_shared_bytes": 32001}, None),
        (
            "max_shared_bytes >= 1000 * THREADS + 1",
            {"max_shared_bytes": 32000},
            "is only for max_shared_bytes >= 1000 * THREADS + 1 (1000 * THREADS + 1 is 32001), "
            "and GPU has max_shared_bytes 32000",
        ),
        ("200 < max_workgroup_size_z <= 300", {"max_workgroup_size_z": 300}, None),
        (
            "200 < max_workgroup_size_z <= 300",
            {"max_workgroup_size_z": 301},
            "is only for 200 < max_workgroup_size_z <= 300, and GPU has max_workgroup_size_z 301",
        ),
        ("storage_alignment == 64", {"storage_alignment": 64}, None),
        (
            "storage_alignment == 64",
            {"storage_alignment": 16},
            "is only for storage_alignment == 64, and GPU has storage_alignment 16",
        ),
        ("n % 64 == 8", {}, None),
        ("n % 64 == 0", {}, "is only for n % 64 == 0 (n % 64 is 8)"),
        ("subgroup_size >= 64", {}, "is only for subgroup_size >= 64 (subgroup_size is 32)"),
    ],
)
def test_where_a_condition_does_not_hold_the_variant_is_skipped(
    where: str, limits: dict[str, int], said: str | None, tmp_path: Path
) -> None:
    """At the very size that it names, and not only at sizes that devices are known to have."""
    built = built_from(tmp_path, {THREADS: f'{THREADS}\nwhere = ["{where}"]'})
    assert refusal(built, device(**limits)) == (said or "")


def test_a_matrix_leaves_out_what_a_condition_forbids(tmp_path: Path) -> None:
    """What names its values alone is decided at once, the rest on each device."""
    table = """[matrix]
constants = { THREADS = [32, 64, 128], OF_ROWS = [1, 2] }
where = ["THREADS * OF_ROWS <= 128", "max_workgroup_invocations >= 2 * THREADS"]

[[variants]]"""
    table = table.replace("OF_ROWS =", '"OF_ROWS?" =')  # which the code lacks
    built = built_from(tmp_path, {"[[variants]]": table, THREADS: "}"})
    names = [variant.name.removeprefix("glsl_THREADS") for variant in built.kernel.variants]
    assert names == ["32_OF_ROWS1", "32_OF_ROWS2", "64_OF_ROWS1", "64_OF_ROWS2", "128_OF_ROWS1"]
    posed = pose_case(Bundle(text=built.bundle.text, blobs=built.bundle.blobs), CASE)
    able = [
        not obstacle(posed, variant, device(max_workgroup_invocations=128))
        for variant in posed.kernel.variants
    ]
    assert able == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({THREADS: f'{THREADS}\nwhere = ["n"]'}, "'n' is no condition: give two formulas and one"),
        ({THREADS: f'{THREADS}\nwhere = ["n is 3"]'}, "'n is 3' is no condition"),
        ({THREADS: f'{THREADS}\nwhere = ["m > 3"]'}, "a formula names m, which is none of n,"),
        (
            {THREADS: 'THREADS = "max_shard_bytes // 64" }'},
            "names max_shard_bytes, which is none of n; did you mean max_shared_bytes",
        ),
        (
            {
                THREADS: f'{THREADS}\nwhere = ["max_groups_x + max_groups_y + max_groups_z + '
                'max_storage_range + max_workgroup_size_x > 1"]'
            },
            "have 1296 sizes together, and 256 are worked out: name fewer limits",
        ),
        (
            {
                "[[variants]]": "[matrix]\nconstants = { THREADS = [8] }\n"
                'where = ["THREADS > 8"]\n\n[[variants]]'
            },
            "[matrix] has no combination that its where = allows",
        ),
        (
            {'owner = "lab"': 'owner = "lab"\nparams = { max_push_bytes = 1 }'},
            "a parameter is named max_push_bytes, as a size, the weights, the threads of a",
        ),
    ],
)
def test_a_slip_is_one_line(declared: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        built_from(tmp_path, declared)
    assert "\n" not in str(caught.value)
    assert said in str(caught.value)


def test_a_stranger_s_limits_are_checked(tmp_path: Path) -> None:
    built = built_from(tmp_path, BY_LIMIT)
    for old, new, said in (
        ('"max_shared_bytes":65536', '"max_shared":65536', "a launch for limits {'max_shared'"),
        ('"groups":', '"refusal":"a\\nb","groups":', "why it is not launched is no line of 500"),
    ):
        assert old in built.bundle.text
        text = built.bundle.text.replace(old, new, 1)
        with pytest.raises(CorruptBundle, match=said):
            Bundle(text=text, blobs=built.bundle.blobs).check()


def test_scratch_is_as_large_as_any_limits_need(tmp_path: Path) -> None:
    scratch = (
        '[[scratch]]\nname = "spare"\nbytes = "4 * THREADS"\nbinding = "Spare"\n\n[[variants]]'
    )
    declared = {**BY_LIMIT, "[[variants]]": scratch}
    path = write_declaration(tmp_path / "lab", declared)
    source = {"i < p.count": "i < p.count + uint(spare[0] * 0)"}
    built = build(path, "somebody", sources=write_tree(tmp_path / "tree", source))
    assert built.kernel.cases[0].scratch == {"glsl": (1024,)}
