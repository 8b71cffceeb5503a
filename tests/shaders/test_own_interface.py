"""What a user's kernel asks of a device: subgroups of a size, full ones, and uniform buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planted_devices import hopper
from planted_tree import CASE, write_declaration, write_tree
from vkbench.device import SUBGROUP_LIMITS, DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.bundle import Bundle, CorruptBundle
from vkbench_shaders.compile.examination import UnfitSpirv, examine
from vkbench_shaders.compile.reflection import uniform_buffers
from vkbench_shaders.compile.spirv import read, write
from vkbench_shaders.own.building import Built, build
from vkbench_shaders.own.posing import pose_case
from vkbench_shaders.tuning.configurations import obstacle

pytestmark = pytest.mark.usefixtures("glslang")
BY_SIZE = {"THREADS = 32 }": 'THREADS = "4 * subgroup_size" }'}
UNIFORM = {  # the bias as a uniform buffer
    "void main": "layout(binding = 4) uniform Scale { vec4 scale; };\nvoid main",
    "(BIASED ? bias[i] : T(0))": "scale.x",
}
SCALE = '[[bindings]]\nname = "s"\naccess = "in"\nformat = "f32"\ndims = ["s"]\nbinding = 4\n\n'
SCALED = {"[[variants]]": f"{SCALE}[[variants]]", "{ n = 200 }": "{ n = 200, s = 4 }"}


def built_from(tmp_path: Path, declared: dict[str, str], source: dict[str, str]) -> Built:
    path = write_declaration(tmp_path / "lab", declared)
    return build(path, "somebody", sources=write_tree(tmp_path / "tree", source))


def complaint(tmp_path: Path, declared: dict[str, str], source: dict[str, str]) -> str:
    with pytest.raises(UsageError) as caught:
        built_from(tmp_path, declared, source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def device(size: int, least: int = 0, most: int = 0) -> DeviceFacts:
    """A GPU with subgroups of a size, that can be had as others too."""
    sizes = dict(zip(SUBGROUP_LIMITS, (least or size, most or size), strict=True))
    facts = hopper()
    return replace(facts, name="GPU", subgroup_size=size, limits={**facts.limits, **sizes})


def test_a_launch_is_worked_out_for_each_size_of_subgroups(tmp_path: Path) -> None:
    built = built_from(tmp_path, BY_SIZE, {})
    posed = pose_case(Bundle(text=built.bundle.text, blobs=built.bundle.blobs), CASE)
    variant = posed.kernel.variant("glsl")
    for size, groups in ((4, 13), (8, 7), (32, 2), (64, 1), (128, 1)):
        [launch] = variant.launches(posed, device(size))
        assert (launch.groups[0], launch.constants["THREADS"]) == (groups, 4 * size)
        assert launch.subgroup_size == 0
    [launch] = variant.launches(posed, device(32, 8, 32))
    assert launch.subgroup_size == 32  # else the driver might choose another
    reason = variant.refuses(posed, device(1))
    assert reason == ("is declared for subgroups of 4, 8, 16, 32, 64, 128, and GPU has those of 1")


def test_sizes_for_which_there_is_no_launch_are_left_out(tmp_path: Path) -> None:
    built = built_from(tmp_path, {"THREADS = 32 }": 'THREADS = "subgroup_size // 16 * 16" }'}, {})
    [case] = built.kernel.cases
    assert sorted(case.steps("glsl")[0].by_subgroup) == [16, 32, 64, 128]
    full = {"THREADS = 32 }": "THREADS = 48 }\nfull_subgroups = true"}
    built = built_from(tmp_path / "full", full, {})
    assert sorted(built.kernel.cases[0].steps("glsl")[0].by_subgroup) == [4, 8, 16]
    assert built.kernel.variants[0].requires == ("full_subgroups",)
    said = complaint(
        tmp_path / "odd", {"THREADS = 32 }": "THREADS = 33 }\nfull_subgroups = true"}, {}
    )
    assert "full_subgroups: a workgroup has 33 threads along x, which fill no subgroups of" in said


def test_a_size_of_subgroups_is_required(tmp_path: Path) -> None:
    given = {"THREADS = 32 }": 'THREADS = "2 * subgroup_size" }\nsubgroup_size = 32'}
    built = built_from(tmp_path, given, {})
    assert built.kernel.variants[0].requires == ("subgroup_size_control",)
    posed = pose_case(built.bundle, CASE)
    variant = posed.kernel.variant("glsl")
    [launch] = variant.launches(posed, device(8, 8, 32))
    assert (launch.subgroup_size, launch.constants["THREADS"]) == (32, 64)
    able = replace(device(64), features=("subgroup_size_control",))
    assert obstacle(posed, variant, able) == ("requires subgroups of 32, and GPU has those of 64")
    assert "has those of 4 to 16" in obstacle(
        posed, variant, replace(device(8, 4, 16), features=able.features)
    )
    assert "needs subgroup_size_control" in obstacle(posed, variant, replace(able, features=()))


def test_a_constant_may_be_called_as_the_size_of_subgroups(tmp_path: Path) -> None:
    source = {"THREADS": "subgroup_size"}
    for given, sizes in (("32", []), ('"subgroup_size"', [4, 8, 16, 32, 64, 128])):
        declared = {
            "THREADS = 32 }": f"subgroup_size = {given} }}",
            "ceil_div(n, THREADS)": "ceil_div(n, subgroup_size)",
        }
        [case] = built_from(tmp_path / str(len(sizes)), declared, source).kernel.cases
        assert sorted(case.steps("glsl")[0].by_subgroup) == sizes


def test_a_stranger_s_sizes_are_checked(tmp_path: Path) -> None:
    built = built_from(tmp_path, BY_SIZE, {})
    for old, new, said in (
        ('"4":{"constants"', '"5":{"constants"', "a launch for subgroups of 5"),
        ('"groups":', '"subgroup_size":33,"groups":', "requires subgroups of 33; sizes are 4, 8"),
    ):
        assert old in built.bundle.text
        text = built.bundle.text.replace(old, new, 1)
        with pytest.raises(CorruptBundle, match=said):
            Bundle(text=text, blobs=built.bundle.blobs).check()


def test_uniform_buffers_are_bound(tmp_path: Path) -> None:
    unit = built_from(tmp_path, SCALED, UNIFORM).units["glsl"]
    assert examine(unit.code, unit.entry, unit.interface) == {0, 1, 2}
    assert uniform_buffers(unit.code) == {2}


def test_a_uniform_buffer_of_a_stranger_is_one_alone(tmp_path: Path) -> None:
    """What says that a driver shall have it as a storage buffer too, or instead, is refused."""
    unit = built_from(tmp_path, SCALED, UNIFORM).units["glsl"]
    header, head, body = read(unit.code)
    [variable] = [ops for op, ops in head if op == 59 and ops[2] == 2]
    [block] = [ops[2] for op, ops in head if op == 32 and ops[0] == variable[0]]
    for change, said in (
        (
            lambda op, ops: (
                (op, (variable[1], 33, 0)) if ops[:2] == (variable[1], 33) else (op, ops)
            ),
            "binding 0 is a uniform buffer and a storage buffer at once",
        ),
        (
            lambda op, ops: (op, (block, 3)) if ops == (block, 2) else (op, ops),
            "a buffer that is no block in set 0",
        ),
    ):
        code = (
            write(header, [change(op, ops) if op == 71 else (op, ops) for op, ops in head]) + body
        )
        with pytest.raises(UnfitSpirv, match=said):
            examine(code, unit.entry, unit.interface)


PARAMETERS = {  # of a shader, in a uniform buffer
    "[[variants]]": SCALE.replace('"f32"', '"u32"').replace(
        "binding = 4", 'binding = 4\nnumbers = ["n", "n // 7 + eps * 0", "bits(eps)", 0]'
    )
    + "[params]\neps = 0.5\n\n[[variants]]",
    "{ n = 200 }": "{ n = 200 }\n\n[sizes]\ns = 4",
}


def test_an_input_may_hold_what_formulas_give(tmp_path: Path) -> None:
    built = built_from(tmp_path, PARAMETERS, UNIFORM)
    posed = pose_case(built.bundle, "lab.scale/f32/n200_s4")
    assert posed.kernel.inputs(posed)["s"].tolist() == [200, 28, 0x3F000000, 0]


SLIPS: list[tuple[dict[str, str], dict[str, str], str]] = [
    (
        {"THREADS = 32 }": "THREADS = 32 }\nsubgroup_size = 33"},
        {},
        "variant glsl: it requires subgroups of 33; sizes are 4, 8, 16, 32, 64, 128",
    ),
    (
        {"[[variants]]": "[params]\nsubgroup_size = 3\n\n[[variants]]"},
        {},
        "a parameter is named subgroup_size, as a size, the weights, the threads of a subgroup",
    ),
    ({"THREADS = 32": 'THREADS = "subgroup_siz"'}, {}, "names subgroup_siz, which is none of"),
    (
        {**PARAMETERS, "s = 4": "s = 5"},
        UNIFORM,
        "s has 4 numbers; lab.scale/f32/n200_s5 has [5]",
    ),
    (
        {**PARAMETERS, "binding = 4\nnumbers": 'binding = 4\nvalues = "special"\nnumbers'},
        UNIFORM,
        's has numbers, so its access is "in" and it has no values or range',
    ),
    (
        {**PARAMETERS, "bits(eps)": "eps"},
        UNIFORM,
        "its declaration gives s numbers that no u32 can hold",
    ),
    (
        {**SCALED, "binding = [0, 7]": "binding = [0, 4]", "\nbinding = 4": "\nbinding = 7"},
        UNIFORM,
        "binding 0 (X) is a storage buffer and binding 4 (Scale) is a uniform buffer: one array",
    ),
    (
        {**SCALED, 'name = "s"\naccess = "in"': 'name = "s"\naccess = "inout"'},
        UNIFORM,
        's is a uniform buffer, which no code writes to: say access = "in"',
    ),
    (
        {},
        {
            "void main": "layout(binding = 4) uniform U { float u; } us[2];\nvoid main",
            "T(0)": "us[0].u",
        },
        "binding 4 (U, us) is an array of buffers, and vkbench binds storage and uniform",
    ),
]


@pytest.mark.parametrize(("declared", "source", "said"), SLIPS)
def test_a_slip_is_one_line(
    declared: dict[str, str], source: dict[str, str], said: str, tmp_path: Path
) -> None:
    assert said in complaint(tmp_path, declared, source)
