"""Kernels of users: what their declarations make, and what is wrong with one, in one line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planted_own import CASE, NAME, SHADOWED, TIMED, built_own, write_own, write_shadow
from vkbench.errors import UsageError, VkbenchError
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import Bundle, CorruptBundle, packaged
from vkbench_shaders.own.building import build
from vkbench_shaders.own.own_form import own_form
from vkbench_shaders.own.posing import NotDeclared, pose_case

SMALL = "shape = { m = 3, k = 96 }"


def complaint(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        build(path, "somebody")
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    return said.removeprefix(f"{path}: ")


def large(path: Path) -> None:
    """A file of a gigabyte, which takes no place on the disk."""
    path.touch()
    os.truncate(path, 1 << 30)


def test_a_declaration_makes_a_bundle(tmp_path: Path) -> None:
    built = built_own(tmp_path)
    assert [case.name for case in built.kernel.cases] == [
        CASE,
        f"{NAME}/f32/m1_k32_b1/eps=0.1",
        TIMED,
    ]
    assert [case.is_timed for case in built.kernel.cases] == [False, False, True]
    launch = built.kernel.cases[0].steps("slang")[0]
    assert (launch.groups, dict(launch.push)) == ((3, 1, 1), {"columns": (96,), "eps": (1e-5,)})
    assert built.kernel.variants[0].requires == ("int8", "storage8")
    assert built.kernel.owner == "lab"
    assert built.bundle.name == NAME


def test_a_case_is_posed_from_the_bundle_alone(tmp_path: Path) -> None:
    """As a worker does, which has the archive and nothing else."""
    bundle = from_archive(built_own(tmp_path).bundle.archive())
    problem = pose_case(bundle, TIMED)
    inputs = problem.kernel.inputs(problem)
    outputs = problem.kernel.check.reference(problem, inputs, None)
    x = inputs["x"].astype(np.float64)
    y = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    shown = outputs["codes"].reshape(16, 32, 32) * outputs["scales"].astype(np.float64)[..., None]
    assert np.abs(shown.reshape(y.shape) - y).max() <= outputs["scales"].max() * 0.501
    assert problem.flops == 4 * 16 * 1024
    assert pose_case(bundle, "copy/f32/n64").kernel.group != "own"
    for case in (f"{NAME}/f32/m2_k32_b1", "lab.other/f32/m2_k32_b1"):
        with pytest.raises(NotDeclared):
            pose_case(bundle, case)


def test_content_decides_the_name_of_the_bundle(tmp_path: Path) -> None:
    first = built_own(tmp_path / "first").bundle
    assert built_own(tmp_path / "again").bundle.sha == first.sha
    slower = write_own(tmp_path / "other", {'groups = ["m"]': 'groups = ["m + 1"]'})
    assert build(slower, "somebody").bundle.sha != first.sha


def test_the_owner_is_who_declares_it(tmp_path: Path) -> None:
    path = write_own(tmp_path, {'owner = "lab"\n': ""})
    assert build(path, "somebody").kernel.name == "somebody.rms_quant"
    with pytest.raises(UsageError, match=r"the owner is 'some\.body': give letters"):
        build(path, "some.body")


def test_other_shapes_are_worked_out(tmp_path: Path) -> None:
    built = build(write_own(tmp_path), "somebody", [{"m": 5, "k": 64}])
    assert [case.name for case in built.kernel.cases] == [f"{NAME}/f32/m5_k64_b2"]


def test_arrays_of_a_file_are_taken(tmp_path: Path) -> None:
    path = write_own(tmp_path, {SMALL: f'{SMALL}\nnpz = "three.npz"'})
    x = np.full((3, 96), 2, np.float32)
    np.savez(tmp_path / "three.npz", x=x, scales=np.full((3, 3), 0.25, np.float32))
    problem = pose_case(build(path, "somebody").bundle, CASE)
    inputs = problem.kernel.inputs(problem)
    outputs = problem.kernel.check.reference(problem, inputs, None)
    assert np.array_equal(inputs["x"], x)
    assert (outputs["scales"] == 0.25).all()  # the file's
    assert (outputs["codes"] == 127).all()  # the function's, of the file's x


def test_large_arrays_travel_in_parts(tmp_path: Path) -> None:
    built = build(write_own(tmp_path), "somebody", [{"m": 1200, "k": 4096}])
    [case] = built.kernel.cases
    assert [len(parts) for parts in case.outputs.values()] == [2, 1]
    assert len(built.bundle.archive()) < sum(map(len, built.bundle.blobs.values())) + 10_000


def test_glsl_is_compiled(glslang: None, tmp_path: Path) -> None:
    built = build(write_own(tmp_path, glsl=True), "somebody")
    assert built.units["glsl"].interface.sized_by == ("THREADS", "", "")
    assert dict(built.kernel.cases[0].steps("glsl")[0].constants) == {"THREADS": 128}


def test_spir_v_of_other_compilers_is_taken(tmp_path: Path) -> None:
    """Without names, and with an entry point called otherwise."""
    code = bytearray(built_own(tmp_path / "first").units["slang"].code)
    at = code.index(b"main\0")
    code[at : at + 4] = b"norm"
    given = {"rms_quant.slang": "norm.spv", "columns = ": '"0" = ', 'eps = "eps"': '"1" = "eps"'}
    path = write_own(tmp_path / "other", given)
    (path.parent / "norm.spv").write_bytes(code)
    unit = build(path, "somebody").units["slang"]
    assert [each.name for each in unit.interface.push] == ["0", "1"]
    assert b"main\0" in unit.code
    path.write_text(path.read_text().replace('"0" = ', "columns = "))
    assert "calls no push constant by name, as its names were stripped: call columns by its" in (
        complaint(path)
    )
    path.write_text(path.read_text().replace('name = "x"', 'name = "x"\nbinding = "x"'))
    assert "no buffer x for x; it has none by name, as its names were stripped" in complaint(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "groups =",
            "grups =",
            "'grups'; did you mean 'groups', 'workgroup' or 'subgroup_size'? (line 36)",
        ),
        ('groups = ["m"]\n', "", "variant slang lacks groups"),
        ('name = "rms_quant"', "name = 3", "name: give a text, not a whole number"),
        ('dims = ["m", "b"]', 'dims = "m"', "dims of [[bindings]] scales: give a list, not a text"),
        ("m = 16, k = 1024", "m = 1.5, k = 4", "shape of [[cases]] 3: give a whole number, not a"),
        ('name = "slang"\n', "", "[[variants]] 1 lacks name"),
        ('name = "rms_quant"', "name = ", "is no TOML"),
        ('name = "rms_quant"', 'name = "rms quant"', "the name is 'rms quant'"),
        ('source = "', 'source = "../', "../rms_quant.slang is outside of the folder"),
        ('source = "', 'source = "/', "/rms_quant.slang is outside of the folder"),
        ("rms_quant.slang", "none.slang", "none.slang is no file in"),
        ("rms_quant.slang", "rms_quant.py", "rms_quant.py does not end in .comp, .glsl"),
        ('groups = ["m"]', 'groups = ["m"]\nworkgroup = [128]', "workgroups of [64, 1, 1] threads"),
        ('groups = ["m"]', "groups = [0]", "the launch has [0, 1, 1] workgroups"),
        ('groups = ["m"]', "groups = [1, 1, 1, 1]", "groups has 4 numbers"),
        ('groups = ["m"]', 'groups = ["n"]', "names n, which is none of eps, m, k, b"),
        ('columns = "k", ', "", "does not give what the code reads: columns (u32)"),
        ('columns = "k"', 'columns = "k / 5"', "has to be a whole number"),
        ('columns = "k"', 'columns = "k - 97"', "columns is u32, not -1"),
        ("nmse = 1e-4", "nmse = nan", "nmse is a number of at least 0, not nan"),
        ("nmse = 1e-4", "nmse = -1", "nmse is a number of at least 0, not -1"),
        (", max_abs = 0.05", "", "a tolerance needs both nmse and max_abs"),
        ("max_abs = 0.05", "worst = 0.05", "a tolerance is nmse, max_abs, each"),
        ("eps = 1e-5", "eps = inf", "the parameter eps is inf"),
        ("eps = 1e-5", "m = 3", "a parameter is named m"),
        ('b = "k / 32"', 'b = "k / 7"', "has to be a whole number"),
        ('"i8"', '"i9"', "unknown format 'i9'; did you mean 'i8'"),
        ('access = "in"', 'access = "read"', "the access of x is 'read'"),
        ('["m", "b"]', '["m", "B"]', "a size of scales is named 'B'"),
        ("k = 1024", "k = 4611686018427387904", "columns is u32, not 4611686018427387904"),
        ("m = 16, k = 1024", "m = 1048576, k = 1048576", "x has 4398046511104 bytes"),
        ("m = 16, k = 1024", "m = 65536, k = 2048", "codes has 134217728 bytes"),
        ("m = 16, k = 1024", "m = 3, k = 96", "is declared twice"),
        ("m = 16, k = 1024", "m = 16", "a shape has the sizes m, k; got m"),
        ("flops = ", "flops = -1 # ", "-1 operations"),
        ("rms_quant.py:rms_quant", "rms_quant.py", "reference is FILE.py:FUNCTION"),
        ("rms_quant.py:rms_quant", "rms_quant.py:norm", "rms_quant.py has no function norm"),
        ('reference = "rms_quant.py:rms_quant"', "", "has no expected codes: give reference"),
    ],
)
def test_a_slip_is_one_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = write_own(tmp_path, {old: new})
    with pytest.raises(UsageError) as caught:
        build(path, "somebody")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_binding_is_missing(tmp_path: Path) -> None:
    lost = '[[bindings]]\nname = "scales"\naccess = "out"\nformat = "f32"\ndims = ["m", "b"]\n\n'
    path = write_own(tmp_path, {lost: "", '[sizes]\nb = "k / 32"': "[sizes]"})
    assert "the code uses binding 2 (RWStructuredBuffer, scales), and no [[b" in complaint(path)
    path = write_own(tmp_path / "more", {lost: lost + lost.replace("scales", "sums")})
    assert "the output sums is binding 3, which the code does not have" in complaint(path)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return inputs['z']", "rms_quant.py, line 2: KeyError: 'z'"),
        ("return {}", "gives nothing, and the outputs are codes, scales"),
        ("return 1 / 0", "rms_quant.py, line 2: ZeroDivisionError: division by zero"),
        ("return {'codes': inputs['x'], 'scales': 1}", "numbers that no i8 can hold"),
        ("return {'codes': inputs['x'][:1], 'scales': 1}", "gives codes as [1, 96]"),
        ("return )", "SyntaxError"),
    ],
)
def test_what_a_reference_does_wrong_is_one_line(body: str, said: str, tmp_path: Path) -> None:
    path = write_own(tmp_path)
    (tmp_path / "rms_quant.py").write_text(f"def rms_quant(inputs, given):\n    {body}\n")
    assert said in complaint(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: np.savez(path, x=np.zeros((5, 96), np.float32)), "is float32 [5, 96]"),
        (lambda path: np.savez(path, x=np.zeros((3, 96))), "is float64 [3, 96]"),
        (lambda path: np.savez(path, y=np.zeros(1)), "holds 'y', which is no binding"),
        (lambda path: np.savez(path, x=np.array([{}], object)), "x holds Python objects"),
        (lambda path: path.write_bytes(b"PK"), "is no npz file"),
        (large, "has 1073741824 bytes"),
    ],
)
def test_what_a_file_of_arrays_may_not_hold(
    make: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    make(tmp_path / "x.npz")
    assert said in complaint(write_own(tmp_path, {SMALL: f'{SMALL}\nnpz = "x.npz"'}))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    path = write_own(tmp_path / "own", {"rms_quant.slang": "link.slang"})
    (tmp_path / "secret.slang").write_text("")
    (path.parent / "link.slang").symlink_to(tmp_path / "secret.slang")
    assert "link.slang is outside of the folder" in complaint(path)


def test_what_no_compiler_takes_is_said(glslang: None, tmp_path: Path) -> None:
    path = write_own(tmp_path, glsl=True)
    for name in ("rms_quant.comp", "rms_quant.slang"):
        whole = (tmp_path / name).read_text()
        (tmp_path / name).write_text(whole.replace("float sum = 0", "float sum = zero"))
        said = complaint(path)
        assert "undeclared identifier" in said or "undefined identifier" in said
        assert re.search(rf"{name}:\d+", said)
        (tmp_path / name).write_text(whole)


@pytest.mark.parametrize("code", [b"", b"\0" * 64, b"\x03\x02\x23\x07" + b"\1" * 64])
def test_what_is_no_spir_v_is_refused(code: bytes) -> None:
    with pytest.raises(VkbenchError, match="no SPIR-V"):
        own_form(code, "")


def test_a_stranger_s_manifest_is_checked(tmp_path: Path) -> None:
    """A bundle that nobody built by vkbench's own hand is refused as one that is damaged."""
    bundle = built_own(tmp_path).bundle
    whole = json.loads(bundle.text)
    stored = whole["kernels"][0]["cases"][0]["outputs"]["codes"][0]

    def refused(change: Callable[[dict[str, object]], object], blobs: dict[str, bytes]) -> str:
        said = json.loads(bundle.text)
        change(said["kernels"][0])
        changed = Bundle(text=json.dumps(said), blobs=blobs)
        with pytest.raises(CorruptBundle) as caught:
            changed.check()
        return str(caught.value)

    blobs = dict(bundle.blobs)
    changes: list[tuple[Callable[[dict[str, object]], object], str]] = [
        (lambda kernel: kernel.update(name="copy"), "is OWNER.NAME"),
        (lambda kernel: kernel.update(variants=[]), "it has 0 variants"),
        (lambda kernel: kernel.update(cases=[]), "it has 0 cases"),
        (lambda kernel: kernel.update(cases=kernel["cases"] * 400), "1200 cases"),  # type: ignore[operator]
        (lambda kernel: kernel.update(name="lab.other"), "is no case of lab.other"),
        (lambda kernel: kernel.update(description="\x1b[2J"), "one line"),
        (lambda kernel: kernel.update(shadows="copy"), "it shadows copy"),
        (lambda kernel: kernel["cases"][0].update(outputs={}), "has not the arrays"),  # type: ignore[index]
    ]
    for change, said in changes:
        assert said in refused(change, blobs)
    assert "an array of lab.rms_quant is missing" in refused(
        lambda kernel: None, {sha: blob for sha, blob in blobs.items() if sha != stored}
    )
    other = replace(bundle, blobs={**blobs, stored: b"other"})
    with pytest.raises(CorruptBundle, match="is not what its hash says"):
        other.check()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"rms_norm"', '"rms_nrm"', "unknown kernel 'rms_nrm'; did you mean 'rms_norm'"),
        ("w = 64 }", "w = 64 }\ntypes = { x = 'q4_0' }", "unknown format of rms_norm's x 'q4_0'"),
        (", w = 64", "", "a shape has the sizes b, c, h, w; got b, c, h"),
        (
            "[[variants]]",
            "[params]\neps = 1\n\n[[variants]]",
            "it shadows rms_norm, and has its bindings",
        ),
        ("w = 64 }", "w = 64 }\nnpz = 'x.npz'", "rms_norm brings its own inputs and reference"),
        ("one_pass.slang", "two.slang", "the output y is binding 3, which the code does not have"),
        (
            "[[variants]]",
            "[[bindings]]\nname = 'y'\naccess = 'out'\n\n[[variants]]",
            "y is rms_norm's, and has its access",
        ),
        (
            "[[variants]]",
            "[[bindings]]\nname = 'out'\nbinding = 2\n\n[[variants]]",
            "unknown binding of rms_norm 'out'",
        ),
    ],
)
def test_a_slip_in_a_shadow_is_one_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = write_shadow(tmp_path / "own", {old: new})
    source = (path.parent / "one_pass.slang").read_text()
    (path.parent / "two.slang").write_text(source.replace("vk::binding(3)", "vk::binding(2)"))
    assert said in complaint(path)


def test_a_shadow_may_have_other_numbers(tmp_path: Path) -> None:
    bound = (
        "[[bindings]]\nname = 'y'\nbinding = 2\n\n[[bindings]]\nname = 'biases'\nbinding = 3\n\n"
    )
    path = write_shadow(tmp_path / "own", {"[[variants]]": bound + "[[variants]]"})
    source = (path.parent / "one_pass.slang").read_text()
    assert "vk::binding(3)" in source
    same = build(write_shadow(tmp_path / "same"), "somebody")
    (path.parent / "one_pass.slang").write_text(source.replace("vk::binding(3)", "vk::binding(2)"))
    moved = build(path, "somebody")
    assert moved.bundle.sha == same.bundle.sha


def test_a_shadow_has_the_inputs_and_reference_of_the_catalogue(tmp_path: Path) -> None:
    bundle = build(write_shadow(tmp_path / "own"), "somebody").bundle
    theirs, ours = pose_case(bundle, SHADOWED), pose_case(packaged(), SHADOWED)
    assert [variant.name for variant in theirs.kernel.variants] == ["lab.one_pass.slang"]
    assert theirs.kernel.check.reference is ours.kernel.check.reference
    assert theirs.kernel.inputs is ours.kernel.inputs
    assert len(bundle.blobs) == 1
    with pytest.raises(NotDeclared):
        pose_case(bundle, "rms_norm/f32/b1_c2_h3_w511")


MANY = """\
name = "many"
owner = "lab"
reference = "many.py:many"

[[bindings]]
name = "x"
access = "in"
format = "f16"
dims = ["n"]
values = "special"

[[bindings]]
name = "place"
access = "in"
format = "u32"
dims = ["n"]
values = "uniform"
range = [0, "n"]

[[bindings]]
name = "sum"
access = "inout"
format = "f32"
dims = ["n"]

[[bindings]]
name = "blocks"
access = "out"
format = "q8_0"
dims = ["n"]
exact = true

[[variants]]
name = "slang"
source = "many.slang"
groups = ["ceil_div(n, 64)"]

[[cases]]
shape = { n = 64 }
"""
MANY_SLANG = """\
[vk::binding(0)] RWByteAddressBuffer x;
[vk::binding(1)] RWByteAddressBuffer place;
[vk::binding(2)] RWByteAddressBuffer sum;
[vk::binding(3)] RWByteAddressBuffer blocks;
[shader("compute")]
[numthreads(64, 1, 1)]
void main(uint i: SV_DispatchThreadID)
{
    sum.Store(i * 4, x.Load(0) + place.Load(i * 4));
    blocks.Store(0, 1);
}
"""
MANY_PYTHON = """\
def many(inputs, given):
    assert inputs["place"].dtype == "uint32" and inputs["x"].dtype == "float64"
    assert given == {"n": 64}
    total = inputs["sum"] + inputs["x"][inputs["place"]]
    return {"sum": total, "blocks": inputs["sum"]}
"""


def test_inputs_of_all_kinds_are_made(tmp_path: Path) -> None:
    for ending, text in (("toml", MANY), ("slang", MANY_SLANG), ("py", MANY_PYTHON)):
        (tmp_path / f"many.{ending}").write_text(text)
    bundle = from_archive(build(tmp_path / "many.toml", "somebody").bundle.archive())
    problem = pose_case(bundle, "lab.many/f16/n64")
    inputs = problem.kernel.inputs(problem)
    assert {name: array.dtype.name for name, array in inputs.items()} == {
        "x": "float16",
        "place": "uint32",
        "sum": "float32",
    }
    assert 0 <= inputs["place"].min() < inputs["place"].max() < 64
    assert np.signbit(inputs["x"][inputs["x"] == 0]).any()
    outputs = problem.kernel.check.reference(problem, inputs, None)
    assert (outputs["blocks"].dtype, outputs["blocks"].shape) == (np.uint8, (68,))
    assert np.array_equal(outputs["sum"], inputs["sum"] + inputs["x"][inputs["place"]])
    assert problem.kernel.binding("blocks").exact


def test_blocks_are_compared_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text(MANY.replace("exact = true\n", ""))
    assert "say exact = true" in complaint(tmp_path / "many.toml")


def test_a_file_that_is_no_text_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "picture.toml"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(UsageError) as caught:
        build(path, "somebody")
    assert str(caught.value) == f"{path} is no text in UTF-8: byte 0 is wrong"
