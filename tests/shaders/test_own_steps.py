"""Kernels of users in several steps: what their declarations make, and what is wrong with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planted_steps import (
    CASE,
    LATER,
    NAME,
    write_counted,
    write_mixed,
    write_sources,
    write_steps,
)
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import Bundle, CorruptBundle
from vkbench_shaders.compile.accesses import accesses
from vkbench_shaders.own.building import Built, build
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.runtime.null import NullDevice

pytestmark = pytest.mark.usefixtures("glslang")


def built_steps(folder: Path, changes: dict[str, str] | None = None) -> Built:
    return build(write_steps(folder, changes), "somebody")


def facts() -> DeviceFacts:
    return NullDevice().facts


def test_steps_are_launched_one_after_the_other(tmp_path: Path) -> None:
    """By the bundle alone, as a worker has it."""
    built = built_steps(tmp_path)
    problem = pose_case(from_archive(built.bundle.archive()), CASE)
    [variant] = problem.kernel.variants
    first, second = variant.launches(problem, facts())
    assert (first.entry, first.groups) == ("split.1", (2, 4, 1))
    assert (first.push, first.constants) == ({"rows": (33,), "columns": (100,)}, {"SPLIT": 4})
    assert (second.entry, second.groups, second.push) == ("split.2", (2, 1, 1), {"rows": (33,)})
    assert [stage.entry for stage in variant.stages] == ["split.1", "split.2"]
    assert variant.own.scratch(problem, facts()) == (4 * 33 * 4,)
    assert (variant.own.names, variant.own.counters(problem, facts())) == (("partials",), 0)


def test_arrays_and_scratch_have_one_number_each(tmp_path: Path) -> None:
    """Arrays in the declaration's order, and scratch behind them, whatever the code has."""
    built = built_steps(tmp_path)
    touched = [accesses(built.units[name].code) for name in ("split.1", "split.2")]
    assert [each and each.touched for each in touched] == [{0, 1, 4}, {3, 4}]


def test_a_later_version_may_have_more(tmp_path: Path) -> None:
    write_steps(tmp_path)
    path = tmp_path / "split_k.toml"
    old = build(path, "somebody")
    new = build(path, "somebody", sources=write_sources(tmp_path / "new", LATER))
    assert (old.kernel.bindings, new.kernel.variants[0].scratch) == (
        new.kernel.bindings,
        ("partials", "spare"),
    )
    assert new.units["split.2"].used == {2, 3, 4, 5}
    assert new.kernel.case(CASE).scratch == {"split": (528, 132)}  # type: ignore[union-attr]


def test_what_a_variant_says_holds_for_its_steps(tmp_path: Path) -> None:
    """The declaration's steps are those of variants without any; values go where code has them."""
    steps = {
        '[[variants]]\nname = "split"\nconstants = { SPLIT = 4 }\npush = { rows = "m" }\n\n': "",
        "[[variants.steps]]": "[[steps]]",
        "[[cases]]\nshape = { m = 33": (
            '[[variants]]\nname = "s"\npush = { "*" = "m", columns = "k" }\n\n'
            "[matrix]\nconstants = { SPLIT = [2, 3] }\n\n[[cases]]\nshape = { m = 33"
        ),
        'push = { columns = "k" }\n': "",
    }
    [case, _] = built_steps(tmp_path, steps).kernel.cases
    assert case.scratch == {"s_SPLIT2": (264,), "s_SPLIT3": (396,)}
    assert [launch.groups for launch in case.steps("s_SPLIT3")] == [(2, 3, 1), (2, 1, 1)]
    assert [launch.push for launch in case.steps("s_SPLIT3")] == [
        {"rows": (33,), "columns": (100,)},
        {"rows": (33,)},
    ]


def test_a_step_gives_one_value_to_several_names(tmp_path: Path) -> None:
    built = built_steps(tmp_path, {'push = { columns = "k" }': 'push = { "columns rows" = "k" }'})
    assert built.kernel.cases[0].steps("split")[0].push == {"rows": (100,), "columns": (100,)}


def test_a_single_dispatch_may_have_counters(tmp_path: Path) -> None:
    """They are the last buffer, wherever the declaration and the code have them."""
    built = build(write_counted(tmp_path), "somebody")
    problem = pose_case(built.bundle, "lab.total/f32/n1024_one1")
    [variant] = problem.kernel.variants
    [launch] = variant.launches(problem, facts())
    assert (launch.entry, launch.groups) == ("last", (16, 1, 1))
    assert built.units["last"].used == {0, 1, 2, 3}
    assert variant.own.scratch(problem, facts()) == (64,)
    assert (variant.own.names, variant.own.counters(problem, facts())) == (("partials",), 1)
    small = replace(facts(), limits={**facts().limits, "max_storage_range": 4096})
    assert variant.refuses(problem, small) is None
    smaller = replace(facts(), limits={**facts().limits, "max_storage_range": 63})
    assert variant.refuses(problem, smaller) == "partials has 64 bytes, the device binds 63 at most"


UNUSED = '[[steps]]\nsource = "sum.comp"\n\n[[cases]]\nshape = { m = 33'
SLIPS: list[tuple[dict[str, str], str]] = [
    ({"x = 1, partials = 2": "x = 1, partial = 2"}, "scratch of variant split, step 1: 'partial'"),
    ({'source = "sum.comp"\n': ""}, "variant split, step 2 lacks source"),
    ({'groups = ["ceil_div(m, 32)"]\n': ""}, "variant split, step 2 lacks groups"),
    ({"sum.comp": "sums.comp"}, "sums.comp is no file in"),
    ({"x = 1, partials = 2": "x = 1"}, "step 1: the code uses binding 2 (Partials), and no array"),
    ({"{ w = 0, x = 1, partials = 2 }": "{}"}, "step 1: the code uses binding 0 (W), and no array"),
    ({"w = 0, x = 1,": "w = 0,"}, "step 1: the code uses binding 1 (X), and no array in its bin"),
    ({'"Partials", y': '"Parts", y'}, "step 2: the code has no buffer Parts for partials; it has"),
    ({'y = "Y"': 'y = "Partials"'}, "step 2: y and partials are both binding 0 of set 0"),
    ({'dims = ["SPLIT", "m"]': ""}, "the scratch partials needs format and dims, or bytes"),
    ({'["SPLIT", "m"]': '["SPLITS", "m"]'}, "variant split: a formula names SPLITS, which is none"),
    ({'["SPLIT", "m"]': '["0 - SPLIT", "m"]'}, "the scratch partials has the sizes [-4, 33]"),
    ({'["SPLIT", "m"]': '["SPLIT * 10000000", "m"]'}, "a scratch has 5280000000 bytes; 1 to 1073"),
    ({'format = "f32"\ndims = ["SPLIT", "m"]': 'format = "q8_0"\ndims = ["m"]'}, "no multiple of"),
    ({', "spare?" = "Spare"': ""}, "nothing says where the code has the scratch spare: give"),
    ({'name = "spare"': 'name = "x"'}, "the scratch x is named as a binding is"),
    ({"SPLIT = 4 }": "SPLIT = 4, SPLITS = 2 }"}, "constant of the steps 'SPLITS'; did you mean"),
    ({'rows = "m" }': 'rows = "m", row = 1 }'}, "push constant of the steps 'row'; did you mean"),
    ({"optional = true": ""}, "step 2: the code has no buffer Biases for biases"),
    ({'access = "out"': 'access = "out"\noptional = true'}, "y is an output, which no version"),
    ({', biases = "Biases"': "", "optional = true": ""}, "variant split: no step binds biases"),
    (
        {
            'dims = ["SPLIT", "m"]': 'dims = ["SPLIT", "m"]\nzero = true',
            '"4 * m"': "4\nzero = true",
        },
        "one scratch may be zero, and partials and spare are",
    ),
    ({"[[cases]]\nshape = { m = 33": UNUSED}, "no variant has the [[steps]]: each has a source or"),
    ({"[[variants.steps]]": "[[variants.step]]"}, "unknown field of [[variants]] 'step'; did you"),
]


@pytest.mark.parametrize(("changes", "said"), SLIPS)
def test_a_slip_is_one_line(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        built_steps(tmp_path, changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_step_that_uses_nothing_is_one_line(tmp_path: Path) -> None:
    path = write_steps(tmp_path, {"{ w = 0, x = 1, partials = 2 }": "{}"})
    idle = "#version 450\nlayout(local_size_x = 32) in;\nvoid main() {}\n"
    (tmp_path / "split.comp").write_text(idle)
    with pytest.raises(UsageError, match="variant split, step 1: its code uses no array and no s"):
        build(path, "somebody")


def test_a_stranger_s_manifest_is_checked(tmp_path: Path) -> None:
    bundle = built_steps(tmp_path).bundle

    def change(edit: Callable[[dict[str, Any]], object]) -> str:
        said = json.loads(bundle.text)
        edit(said["kernels"][0])
        with pytest.raises(CorruptBundle) as caught:
            Bundle(text=json.dumps(said), blobs=bundle.blobs).check()
        return str(caught.value)

    def of_variant(**fields: object) -> Callable[[dict[str, Any]], object]:
        return lambda kernel: kernel["variants"][0].update(fields)

    def of_case(**fields: object) -> Callable[[dict[str, Any]], object]:
        return lambda kernel: kernel["cases"][0].update(fields)

    launch = json.loads(bundle.text)["kernels"][0]["cases"][0]["launches"]["split"][0]
    many = [f"s{number}" for number in range(30)]
    for edit, said in (
        (of_variant(steps=3), "it launches 2 of 3 steps"),
        (of_variant(steps=0), "0 steps; 1 to 64 are allowed"),
        (of_variant(steps=10**9), "1000000000 steps; 1 to 64 are allowed"),
        (of_variant(scratch=["../x"]), "a scratch is named '../x'"),
        (of_variant(scratch=many), "has 34 arrays and scratch; 32 are allowed"),
        (of_variant(scratch=["a", "a"]), "the scratch a is declared twice"),
        (of_variant(scratch=[]), "it has not the size of each scratch"),
        (of_variant(counters="flags"), "it has not the size of each scratch"),
        (of_variant(scratch=[], counters="flags"), None),
        (of_case(scratch={}), "it has not the size of each scratch"),
        (of_case(scratch={"split": [1 << 40]}), "a scratch has 1099511627776 bytes"),
        (of_case(scratch={"split": [0]}), "a scratch has 0 bytes"),
        (of_case(scratch={"split": [-4]}), "a scratch has -4 bytes"),
        (of_case(launches={"split": []}), "it launches 0 of 2 steps"),
        (of_case(launches={"split": launch}), "it launches 1 of 2 steps"),
        (of_case(launches={"split": [launch] * 65}), "it launches 65 of 2 steps"),
        (of_case(launches={"split": [launch, {**launch, "groups": [0, 1, 1]}]}), "workgroups"),
        (of_case(scratch={"split": [528], "other": [4]}), "of a variant that the kernel has not"),
    ):
        if said:
            assert said in change(edit)
    lost = [entry for entry in bundle.manifest.entries if entry.entry == "split.2"]
    text = json.loads(bundle.text)
    text["entries"] = [entry for entry in text["entries"] if entry["entry"] != "split.2"]
    with pytest.raises(CorruptBundle, match=f"the code of {NAME}/split.2 is missing"):
        Bundle(text=json.dumps(text), blobs=bundle.blobs).check()
    assert len(lost) == 1


def test_steps_ask_for_subgroups_formats_and_uniform_buffers(tmp_path: Path) -> None:
    built = build(write_mixed(tmp_path), "somebody")
    assert [*built.units] == ["split.1<f32>", "split.2<f32>", "split.1<f16>", "split.2<f16>"]
    assert [*built.launches] == [*built.units]
    assert built.units["split.2<f16>"].uniform == {2}
    [declared] = built.kernel.variants
    assert (declared.requires, declared.requires_more) == (
        ("full_subgroups", "subgroup_size_control"),
        {"f16": ("storage16",)},
    )
    problem = pose_case(from_archive(built.bundle.archive()), CASE.replace("f32", "f32:x=f16"))
    [variant] = problem.kernel.variants
    assert {stage.arguments(problem.types) for stage in variant.stages} == {("f16",)}
    limits = {**facts().limits, "min_subgroup_size": 4, "max_subgroup_size": 16}
    here = replace(facts(), subgroup_size=16, limits=limits, features=("storage16",))
    first, second = variant.launches(problem, here)
    assert (first.subgroup_size, first.full_subgroups) == (8, False)
    assert (second.subgroup_size, second.full_subgroups) == (16, True)
    assert (second.groups, second.constants["THREADS"]) == ((1, 1, 1), 64)
    assert variant.own.scratch(problem, here) == (4 * 33 * 32 * 4,)  # for subgroups of 128
    assert not variant.refuses(problem, here)
    few = replace(here, limits={**limits, "min_subgroup_size": 16})
    assert (
        variant.refuses(problem, few) == "requires subgroups of 8, and NullDevice has those of 16"
    )
    assert "needs storage16" in str(variant.refuses(problem, replace(here, features=())))
