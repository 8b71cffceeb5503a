"""A case's name is its identity, and reads back."""

from __future__ import annotations

import pytest

from vkbench.case import (
    Case,
    is_own,
    parse,
    parse_shape,
    program_of,
    with_seed,
    without_seed,
)
from vkbench.errors import UsageError

CASES = (
    Case(kernel="mul_mat_vec", format="q4_0", shape={"m": 4096, "n": 1, "k": 14336}),
    Case(kernel="dequantize", format="q4_0", shape={"m": 64, "k": 4096}, types={"y": "f16"}),
    Case(
        kernel="add",
        format="f32",
        shape={"b": 2, "c": 3, "h": 5, "w": 7},
        params={"layout": "strided", "broadcast": "row", "scale": 0.5, "times": 3},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_names_read_back(case: Case) -> None:
    again = parse(case.name)
    assert again == case
    assert hash(again) == hash(case)
    assert dict(again.shape) == dict(case.shape)
    assert dict(again.params) == dict(case.params)


def test_names_are_canonical() -> None:
    assert CASES[0].name == "mul_mat_vec/q4_0/m4096_n1_k14336"
    assert CASES[1].name == "dequantize/q4_0:y=f16/m64_k4096"
    assert CASES[2].name.endswith("/broadcast=row,layout=strided,scale=0.5,times=3")


def test_hash_is_stable() -> None:
    """Input data follow from it: a change here changes every history."""
    assert CASES[0].hash[:16] == "56288232fd6d42e9"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "copy",
        "copy/f32",
        "copy//n5",
        "/f32/n5",
        "copy/f32/n-1",
        "copy/f32/n5_n6",
        "copy/f32/5",
        "copy/f32/n5/layout",
        "copy/f32/n5/layout=",
        "copy/f32:y/n5",
        "copy/f32/n5/a=1/b=2",
    ],
)
def test_malformed_names(name: str) -> None:
    with pytest.raises(UsageError, match="malformed"):
        parse(name)


def test_shapes_are_forgiving_about_spelling() -> None:
    assert parse_shape("m=64, N=1,k256") == {"m": 64, "n": 1, "k": 256}


@pytest.mark.parametrize(
    "text", ["", "m", "m=", "m=00", "m=-1", "m=6=4", "m=1.5", "m=1,m=2", "m=²"]
)
def test_malformed_shapes(text: str) -> None:
    with pytest.raises(UsageError, match="malformed shape"):
        parse_shape(text)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_seed_is_named_and_taken_off_again(case: Case) -> None:
    seeded = with_seed(case.name, 3)
    assert parse(seeded).params["seed"] == 3
    assert without_seed(seeded) == (case.name, 3)
    assert with_seed(case.name, 0) == case.name
    assert without_seed(case.name) == (case.name, 0)
    assert with_seed(seeded, 4) == seeded


def test_whole_models_have_no_seeds() -> None:
    name = "model/llama-8b-q4_K_M-0123456789ab/pp512"
    assert with_seed(name, 3) == name


@pytest.mark.parametrize(
    ("name", "kernel", "rest"),
    [
        ("my-bench:copy/64m", "my-bench:copy", "64m"),
        ("my-bench:copy", "my-bench:copy", ""),
        ("b:BM_Copy<float, 4>/64/real_time", "b:BM_Copy<float, 4>", "64/real_time"),
        ("b:lab.kernel/seed=3", "b:lab.kernel", "seed=3"),
    ],
)
def test_a_programs_own_case_has_its_programs_name(name: str, kernel: str, rest: str) -> None:
    case = parse(name)
    assert (case.name, case.kernel, case.format, case.rest) == (name, kernel, "", rest)
    assert program_of(name) == name.partition(":")[0]
    assert with_seed(name, 3) == name
    assert without_seed(name) == (name, 0)
    assert not is_own(name)


@pytest.mark.parametrize("name", ["b:", "b:*", ":copy", "B:copy", "b:/copy", "b:copy ", "b:a\n"])
def test_what_is_no_programs_case(name: str) -> None:
    with pytest.raises(UsageError):
        parse(name)


def test_formats_of_bindings_name_no_program() -> None:
    assert program_of(CASES[1].name) == ""
