"""One declaration of a shader that is compiled for several formats of its arrays."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_devices import hopper
from planted_own import write_shadow
from planted_tree import FORMATS, MIXED, write_declaration, write_tree
from vkbench.errors import UsageError
from vkbench_shaders.own.building import Built, build
from vkbench_shaders.own.inclusions import digest_of_sources
from vkbench_shaders.own.posing import pose_case
from vkbench_shaders.tuning.configurations import obstacle

pytestmark = pytest.mark.usefixtures("glslang")


def built_from(folder: Path, changes: dict[str, str] | None = None) -> Built:
    path = write_declaration(folder / "lab", FORMATS | (changes or {}))
    return build(path, "somebody", sources=write_tree(folder / "tree", MIXED))


def test_each_case_is_there_in_each_combination_of_formats(tmp_path: Path) -> None:
    built = built_from(tmp_path)
    own = built.kernel
    choices = ("f32,f32", "f32,f16", "f16,f32", "f16,f16")
    assert list(built.units) == [f"glsl<{formats}>" for formats in choices]
    assert [case.name for case in own.cases] == [
        "lab.scale/f32/n200",
        "lab.scale/f32:y=f16/n200",
        "lab.scale/f16/n200",
        "lab.scale/f16:y=f16/n200",
    ]
    assert [variant.name for variant in own.variants] == ["glsl"]
    assert own.variants[0].requires == ()
    assert len({unit.entry.sha256 for unit in built.units.values()}) == 4
    posed = pose_case(built.bundle, "lab.scale/f16/n200")
    assert (posed.types, posed.array_shape("x")) == ({"x": "f16", "y": "f32"}, (200,))
    variant = posed.kernel.variant("glsl")
    assert "storage16, which" in obstacle(posed, variant, hopper())
    assert not obstacle(pose_case(built.bundle, "lab.scale/f32/n200"), variant, hopper())
    launches = [case.steps("glsl")[0].groups[0] for case in own.cases]
    assert launches == [7, 7, 4, 4]  # WIDE, a macro of x's formats


def test_arrays_may_have_one_format(tmp_path: Path) -> None:
    one = {
        "[matrix.formats.x]": '[matrix.formats."x, y"]',
        "[matrix.formats.y]\n": "",
        'f32 = { OUT = "float" }\nf16 = { OUT = "float16_t" }\n': "",
        'T = "float",': 'T = "float", OUT = "float",',
        'T = "float16_t",': 'T = "float16_t", OUT = "float16_t",',
    }
    built = built_from(tmp_path, one)
    names = [case.name for case in built.kernel.cases]
    assert names == ["lab.scale/f32/n200", "lab.scale/f16/n200"]
    assert pose_case(built.bundle, "lab.scale/f16/n200").types == {"x": "f16", "y": "f16"}


def test_a_case_may_be_of_some_formats(tmp_path: Path) -> None:
    case = 'shape = { n = 200 }\ntypes = { x = "f16" }'
    built = built_from(tmp_path, {"shape = { n = 200 }": case})
    names = [case.name for case in built.kernel.cases]
    assert names == ["lab.scale/f16/n200", "lab.scale/f16:y=f16/n200"]
    assert built.launches.keys() == {"glsl<f16,f16>", "glsl<f16,f32>"}


def test_a_format_may_choose_the_source(tmp_path: Path) -> None:
    path = write_declaration(tmp_path / "lab", FORMATS | {"scale.comp": "scale_{x}.comp"})
    tree = write_tree(tmp_path / "tree", MIXED)
    for fmt in ("f32", "f16"):
        (tree / f"scale_{fmt}.comp").write_text((tree / "scale.comp").read_text())
    assert len(build(path, "somebody", sources=tree).units) == 4
    before = digest_of_sources(path, "somebody", tree)
    (tree / "scale_f16.comp").write_text("")
    assert digest_of_sources(path, "somebody", tree) != before


def test_a_shadow_has_the_formats_of_its_kernel(tmp_path: Path) -> None:
    axes = "[matrix]\nformats.x = ['f32']\n\n[[variants]]"
    wrong = {"[[variants]]": axes.replace("f32", "q4_0")}
    with pytest.raises(UsageError, match="unknown format of rms_norm's x 'q4_0'"):
        build(write_shadow(tmp_path / "own", wrong), "lab")
    built = build(write_shadow(tmp_path / "two", {"[[variants]]": axes}), "lab")
    assert list(built.units) == ["slang<f32>"]
    posed = pose_case(built.bundle, built.kernel.cases[0].name)
    assert posed.kernel.variants[0].arguments(posed.types) == ("f32",)


SLIPS = [
    (
        {'name = "x"\naccess': 'name = "x"\nformat = "f32"\naccess'},
        "x has its formats in [matrix]: leave out its format",
    ),
    ({"[matrix.formats.y]": "[matrix.formats.z]"}, "the binding y lacks format"),
    ({"[matrix.formats.y]": '[matrix.formats."y z"]'}, "unknown binding of scale in [matrix] 'z'"),
    ({"[matrix.formats.y]": '[matrix.formats."y x"]'}, "[matrix] has formats of x twice"),
    ({'f32 = { OUT = "float" }': 'f33 = { OUT = "float" }'}, "unknown format 'f33'; did you mean"),
    (
        {"{ n = 200 }": '{ n = 200 }\ntypes = { x = "q4_0" }'},
        "types x q4_0, which [matrix] has not",
    ),
    (
        {'OUT = "float16_t"': 'OUT = "half"'},
        "variant glsl for f32,f16: parts/common/head.glsl:",
    ),
    (
        {"[matrix.formats.x]": f"[matrix]\ndefines.W = {list(range(99))}\n\n[matrix.formats.x]"},
        "[matrix] makes 396 codes of variants and formats; 256 are allowed",
    ),
]


@pytest.mark.parametrize(("changes", "said"), SLIPS)
def test_a_slip_is_one_line(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        built_from(tmp_path, changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
