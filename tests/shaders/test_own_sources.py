"""Sources of users as they are: macros, includes, compilers, and bindings by number and by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from planted_tree import CASE, write_declaration, write_tree
from vkbench.errors import UsageError
from vkbench_shaders.compile.examination import examine
from vkbench_shaders.own.building import Built, build
from vkbench_shaders.own.inclusions import digest_of_sources
from vkbench_shaders.own.launching.own_unit import workgroup

pytestmark = pytest.mark.usefixtures("glslang")
BINDING = "binding = [0, 7]"


def built_from(tmp_path: Path, declared: dict[str, str], source: dict[str, str]) -> Built:
    path = write_declaration(tmp_path / "lab", declared)
    return build(path, "somebody", sources=write_tree(tmp_path / "tree", source))


def complaint(tmp_path: Path, declared: dict[str, str], source: dict[str, str]) -> str:
    with pytest.raises(UsageError) as caught:
        built_from(tmp_path, declared, source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sources_stay_where_they_are(tmp_path: Path) -> None:
    built = built_from(tmp_path, {}, {})
    unit, [case] = built.units["glsl"], built.kernel.cases
    assert examine(unit.code, unit.entry, unit.interface) == {0, 1}
    launch = case.steps("glsl")[0]
    assert launch.groups == (7, 1, 1)
    assert launch.constants == {"THREADS": 32, "BIASED": 0}
    assert launch.push == {"count": (200,), "unused": (0,), "more": (0, 0), "factor": (0.5,)}


@pytest.mark.parametrize("flags", ["[]", '["-O"]', '["-O", "-g"]'])
def test_glslc_compiles_as_it_ships(flags: str, need: object, tmp_path: Path) -> None:
    """Its optimiser leaves no names: they are those of the same source, compiled without it."""
    if not shutil.which("glslc"):
        need("glslang", "glslc is not installed")  # type: ignore[operator]
    words = {"include = ": f'compiler = "glslc"\nflags = {flags}\ninclude = '}
    one = built_from(tmp_path / "one", words | {BINDING: 'binding = ["X", "Bias"]'}, {})
    assert one.units["glsl"].by == "glslc"
    assert one.units["glsl"].interface.sized_by == ("THREADS", "", "")
    assert built_from(tmp_path / "two", words, {}).bundle.sha == one.bundle.sha
    idle = {"layout(local": "layout(constant_id = 9) const uint IDLE = 1;\nlayout(local"}
    given = words | {"THREADS = 32 }": "THREADS = 32, IDLE = 2 }"}
    assert built_from(tmp_path / "three", given, idle).units["glsl"].by == "glslc"


def test_a_name_stands_for_whatever_number_the_code_has(tmp_path: Path) -> None:
    by_name = {BINDING: 'binding = ["X", "Bias", "Later"]', "binding = 3\nset = 1": "binding = 'Y'"}
    moved = {'"common/head.glsl"': '"common/head.glsl"\n#define x moved'}
    assert built_from(tmp_path, by_name, {}).units["glsl"].entry
    assert "no buffer 3 for" not in complaint(tmp_path, by_name, moved)
    assert "no buffer Q or R for x; it has X, Bias, Spare, Y" in complaint(
        tmp_path, {BINDING: 'binding = ["Q", "R"]'}, {}
    )


def test_what_only_some_versions_have_may_be_given(tmp_path: Path) -> None:
    some = {
        "factor = 0.5 }": 'factor = 0.5, "rows?" = 1, "unused?" = 3, "*" = 9 }',
        "THREADS = 32 }": 'THREADS = 32, "WIDE?" = 1, 5 = 0 }',
    }
    [case] = built_from(tmp_path, some, {}).kernel.cases
    launch = case.steps("glsl")[0]
    assert launch.push == {"count": (200,), "unused": (3,), "more": (0, 0), "factor": (0.5,)}
    assert launch.constants == {"THREADS": 32, "BIASED": 0}


def test_several_push_constants_get_one_value(tmp_path: Path) -> None:
    words = {'count = "n", factor = 0.5 }': '"count factor rows?" = "n", "missing? unused?" = 2 }'}
    [case] = built_from(tmp_path, words, {}).kernel.cases
    push = case.steps("glsl")[0].push
    assert push == {"count": (200,), "unused": (2,), "more": (0, 0), "factor": (200,)}


def test_a_source_may_be_called_otherwise_in_other_versions(tmp_path: Path) -> None:
    some = {'"scale.comp"': '["scaled.comp", "scale.comp"]'}
    assert built_from(tmp_path, some, {}).units["glsl"].entry
    neither = {'"scale.comp"': '["scaled.comp", "scales.comp"]'}
    assert "scaled.comp or scales.comp is no file in" in complaint(tmp_path, neither, {})
    none = {'"scale.comp"': "[]"}
    assert "variant glsl lacks source" in complaint(tmp_path, none, {})


def test_a_change_of_what_is_included_is_a_change(tmp_path: Path) -> None:
    path, tree = write_declaration(tmp_path / "lab"), write_tree(tmp_path / "tree")
    before = digest_of_sources(path, "lab", tree)
    (tree / "other.comp").write_text("#version 450")
    assert digest_of_sources(path, "lab", tree) == before
    (tree / "parts" / "common" / "head.glsl").write_text("")
    assert digest_of_sources(path, "lab", tree) != before


def with_preamble(text: str) -> dict[str, str]:
    return {'include = ["parts"]': f'include = ["parts"]\npreamble = """\n{text}"""'}


# as ncnn's shaders are: its C++ puts macros and the size of workgroups behind #version
BARE = {"#version 450\n": "// bare\n#version 450\n", "layout(local_size_x_id = 0) in;\n": ""}
SIZED = "layout(local_size_x_id = 8) in;\n#define GIVEN(x) (2 * (x))\n"


@pytest.mark.parametrize("compiler", ["glslc", "glslangValidator"])
def test_a_preamble_is_put_behind_the_version(compiler: str, need: object, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        need("glslang", f"{compiler} is not installed")  # type: ignore[operator]
    words = with_preamble(SIZED) | {'name = "glsl"': f'name = "glsl"\ncompiler = "{compiler}"'}
    words["THREADS = 32"] = "8 = 32"
    words["ceil_div(n, THREADS)"] = "ceil_div(n, 32)"
    source = BARE | {"TWICE(x[i])": "GIVEN(x[i])"}
    built = built_from(tmp_path / "right", words, source)
    unit, [case] = built.units["glsl"], built.kernel.cases
    assert unit.by == compiler
    assert workgroup(unit, case.steps("glsl")[0].constants) == (32, 1, 1)
    said = complaint(tmp_path / "wrong", words, source | {"GIVEN(x[i]": "TAKEN(x[i]"})
    assert "scale.comp:11: " in said
    assert "'TAKEN' : no matching overloaded function found" in said


def test_slang_takes_no_preamble(tmp_path: Path) -> None:
    path = write_declaration(tmp_path, with_preamble(SIZED) | {"scale.comp": "scale.slang"})
    (tmp_path / "scale.slang").write_text("")
    (tmp_path / "parts").mkdir()
    with pytest.raises(
        UsageError, match=r"scale\.slang is Slang, which has no #version: leave out"
    ):
        build(path, "somebody")


def test_a_change_of_what_a_preamble_includes_is_a_change(tmp_path: Path) -> None:
    words = with_preamble('#include "more.glsl"\n')
    path, tree = write_declaration(tmp_path / "lab", words), write_tree(tmp_path / "tree")
    (tree / "more.glsl").write_text("#define SPARE 1")
    before = digest_of_sources(path, "lab", tree)
    (tree / "more.glsl").write_text("#define SPARE 2")
    assert digest_of_sources(path, "lab", tree) != before


def test_a_constant_has_all_its_names(tmp_path: Path) -> None:
    """glslang gives the number of N to what is declared as N, and the module has both names."""
    source = {
        "void main": "layout(constant_id = 8) const uint N = 1;\nconst uint WIDE = N;\nvoid main",
        "i < p.count": "i < p.count * WIDE",
    }
    for name in ("N", "WIDE", "8"):
        words = {"THREADS = 32": f"THREADS = 32, {name} = 1"}
        built = built_from(tmp_path / name, words, source)
        given = built.kernel.cases[0].steps("glsl")[0].constants
        assert sorted(given.values()) == [0, 1, 32]


def test_the_size_of_a_workgroup_may_be_an_int(tmp_path: Path) -> None:
    """glslang declares it a second time then, as unsigned, with the same number."""
    for at, uses in enumerate(("i < p.count", "i < p.count * uint(THREADS / 32)")):
        source = {"uint THREADS": "int THREADS", "i < p.count": uses}
        built = built_from(tmp_path / str(at), {}, source)
        assert built.kernel.cases[0].steps("glsl")[0].constants == {"THREADS": 32, "BIASED": 0}
        unit = built.units["glsl"]
        assert examine(unit.code, unit.entry, unit.interface) == {0, 1}


def test_a_matrix_makes_variants(tmp_path: Path) -> None:
    axes = "\n[matrix]\ndefines = { TWICE_OF = [1, 2] }\nconstants = { THREADS = [32, 64] }\n"
    words = {
        "constants = { THREADS = 32 }\n": "",
        "[[cases]]": f"{axes}\n[[cases]]",
        "ceil_div(n, THREADS)": "ceil_div(n, THREADS) * TWICE_OF",
    }
    kernel = built_from(tmp_path, words, {}).kernel
    [case] = kernel.cases
    names = [f"glsl_TWICE_OF{turns}_THREADS{threads}" for turns in (1, 2) for threads in (32, 64)]
    assert [variant.name for variant in kernel.variants] == names
    assert [case.steps(name)[0].groups[0] for name in names] == [7, 4, 14, 8]
    assert [case.steps(name)[0].constants["THREADS"] for name in names] == [32, 64, 32, 64]
    named = words | {'name = "glsl"': 'name = "w{THREADS}_{TWICE_OF}"'}
    kernel = built_from(tmp_path, named, {}).kernel
    assert [variant.name for variant in kernel.variants] == ["w32_1", "w64_1", "w32_2", "w64_2"]


SLIPS: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({"include = ": "compiler = 'gcc'\ninclude = "}, {}, "which the compiler 'gcc' does not read"),
    ({'"parts"': '"part"'}, {}, "include: part is no folder in"),
    ({'include = ["parts"]\n': ""}, {}, "common/head.glsl"),
    ({'T = "float"': 'T = "flat"'}, {}, "head.glsl:3"),
    ({}, {"TWICE(x": "THRICE(x"}, "'THRICE' : no matching overloaded function found"),
    ({'T = "float", ': ""}, {}, "head.glsl:3"),
    ({"scale.comp": "scaled.comp"}, {}, "scaled.comp is no file in"),
    ({BINDING: "binding = 0"}, {}, "uses binding 7 (Bias), and no [[bindings]] has this number"),
    ({BINDING: "binding = [0, 7, 'Y']"}, {}, "x and y are both binding 3 of set 1"),
    ({"\nset = 1": ""}, {}, "uses binding 3 of set 1 (Y), and no [[bindings]]"),
    ({"binding = 3": "binding = 4"}, {}, "uses binding 3 of set 1 (Y), and no [[bindings]]"),
    ({'access = "in"': ""}, {}, "the binding x lacks access"),
    ({", factor = 0.5": ""}, {}, "push does not give what the code reads: factor (f32)"),
    (
        {"factor = 0.5": "factor = 1, facter = 1"},
        {},
        "unknown push constant of the code 'facter'; did you mean 'factor'",
    ),
    (
        {"THREADS = 32": "THREADS = 32, THREAD = 32"},
        {},
        "constant of the code 'THREAD'; did you mean 'THREADS'",
    ),
    ({"THREADS = 32": "THREADS = 32, 0 = 64"}, {}, "the constant THREADS is given twice, as 0"),
    ({"THREADS = 32": "THREADS = 0.5"}, {}, "the constant THREADS is u32, not 0.5"),
    ({"THREADS = 32": "n = 32"}, {"THREADS": "n"}, "formulas mean the size or parameter n"),
    (
        {"[[cases]]": "[matrix]\nconstants = { THREADS = [] }\n\n[[cases]]"},
        {},
        "[matrix] has no value of THREADS",
    ),
    (
        {"[[cases]]": "[matrix]\ndefine = { THREADS = [1] }\n\n[[cases]]"},
        {},
        "unknown field of [matrix] 'define'; did you mean 'defines'",
    ),
    (
        {'name = "glsl"': 'name = "w{T}"\n', "[[cases]]": "[matrix]\ndefines.W = [1]\n[[cases]]"},
        {},
        "the variant w{T} names T, and [matrix] has W",
    ),
    (
        {"[[cases]]": f"[matrix]\ndefines = {{ W = {list(range(300))} }}\n\n[[cases]]"},
        {},
        "[matrix] makes 300 variants; 256 are allowed",
    ),
    ({}, {"uint THREADS": "uint64 THREADS"}, "scale.comp:4: '' : syntax error"),
    (  # glslang warns of it before it says what is wrong
        {},
        {"void main": "layout(binding = 4) uniform T { float u; };\nvoid main"},
        "scale.toml: scale.comp:8: '' : syntax error",
    ),
    (
        {},
        {"void main": "layout(binding = 4) uniform U { float u; };\nvoid main", "T(0)": "u"},
        "uses binding 4 (U), a uniform buffer, and no [[bindings]] has this number",
    ),
    (
        {},
        {
            "void main": "layout(binding = 4) uniform sampler2D s;\nvoid main",
            "T(0)": "texelFetch(s, ivec2(0), 0).x",
        },
        "binding 4 (s) is a combined image and sampler, and vkbench binds storage and uniform buf",
    ),
    (
        {},
        {
            "void main": "layout(binding = 4, r32f) uniform image2D s;\nvoid main",
            "T(0)": "imageLoad(s, ivec2(0)).x",
        },
        "binding 4 (s) is a storage image, and vkbench binds storage and uniform buffers alone",
    ),
    (
        {},
        {
            "void main": "layout(buffer_reference) buffer A { T a[]; };\nvoid main",
            "#version 450": "#version 450\n#extension GL_EXT_buffer_reference2 : require\n"
            "#extension GL_EXT_buffer_reference_uvec2 : require",
            "T(0)": "A(uvec2(p.count)).a[0]",
        },
        "scale.comp: it follows addresses of buffers (PhysicalStorageBufferAddresses), whose boun",
    ),
]


@pytest.mark.parametrize(("declared", "source", "said"), SLIPS)
def test_a_slip_is_one_line(
    declared: dict[str, str], source: dict[str, str], said: str, tmp_path: Path
) -> None:
    assert said in complaint(tmp_path, declared, source)


def test_the_case_is_called_as_ever(tmp_path: Path) -> None:
    assert [case.name for case in built_from(tmp_path, {}, {}).kernel.cases] == [CASE]
