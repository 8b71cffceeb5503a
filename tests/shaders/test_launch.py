"""A launch's values lie where its unit takes them; a name too few or too many is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from vkbench_shaders.kernel import Launch, Push
from vkbench_shaders.launch import (
    MOST_DIVIDED,
    Interface,
    LaunchMismatch,
    PackedLaunch,
    PushField,
    SpecConstant,
    divisor,
    pack,
)

TAKEN = Interface(
    push=(
        PushField(name="rows", type="u32", offset=0),
        PushField(name="area.number", type="u32", offset=4),
        PushField(name="area.shift", type="i32", offset=8),
        PushField(name="begin", type="u64", offset=16),
        PushField(name="scale", type="f32", count=3, offset=32),
    ),
    constants=(
        SpecConstant(name="WIDE", id=3, type="u32"),
        SpecConstant(name="THREADS", id=5, type="u32"),
        SpecConstant(name="DEVICE_PACKS", id=99, type="u32"),
    ),
    dropped=("SPLIT",),
)
PUSH: Push = {
    "scale": (0.5, 1.0, -2.0),
    "rows": 7,
    "begin": 2**40,
    "area": {"shift": -1, "number": 9},
}
CONSTANTS = {"THREADS": 64, "WIDE": True}


def packed(
    push: Push = PUSH, constants: dict[str, int] = CONSTANTS, interface: Interface = TAKEN
) -> PackedLaunch:
    launch = Launch(groups=(1, 2, 3), push=push, constants=constants)
    return pack(launch, interface, "norm/norm")


def test_values_lie_where_their_names_are() -> None:
    made = packed()
    assert made.push == struct.pack("<IIi4xQ8x3f", 7, 9, -1, 2**40, 0.5, 1.0, -2.0)
    assert made.constants == ((3, 1), (5, 64))
    assert made.groups == (1, 2, 3)


def test_a_constant_that_the_compiler_dropped_may_be_given() -> None:
    assert packed(constants={**CONSTANTS, "SPLIT": 1}).constants == packed().constants


@pytest.mark.parametrize(
    ("push", "said"),
    [
        ({**PUSH, "row": 7}, "does not give: none; that it gives and the unit does not have: row"),
        ({}, "does not give: area.number, area.shift, begin, rows, scale; "),
        ({**PUSH, "area": {"number": 9}}, "does not give: area.shift; "),
        ({**PUSH, "area": 9}, "does not give: area.number, area.shift; .* not have: area$"),
        ({**PUSH, "scale": (1.0, 2.0)}, r"scale has 3 numbers, the launch gives \(1.0, 2.0\)"),
        ({**PUSH, "rows": -1}, "rows is u32, not -1"),
        ({**PUSH, "rows": 2**32}, "rows is u32, not 4294967296"),
        ({**PUSH, "rows": 1.5}, "rows is u32, not 1.5"),
        ({**PUSH, "scale": (1e39, 0.0, 0.0)}, "scale is f32, not 1e.39"),
    ],
)
def test_push_constants_that_do_not_fit_are_refused(push: Push, said: str) -> None:
    with pytest.raises(LaunchMismatch, match=f"^norm/norm: .*{said}"):
        packed(push=push)


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"THREADS": 64}, "does not give: WIDE; that it gives and the unit does not have: none"),
        ({**CONSTANTS, "WIDTH": 1}, "does not give: none; .* not have: WIDTH"),
        ({**CONSTANTS, "DEVICE_PACKS": 1}, "does not give: none; .* not have: DEVICE_PACKS"),
    ],
)
def test_constants_that_do_not_fit_are_refused(constants: dict[str, int], said: str) -> None:
    with pytest.raises(LaunchMismatch, match=f"^norm/norm: specialisation constants .*{said}"):
        packed(constants=constants)


def test_an_old_bundle_does_not_say_which_constants_were_dropped() -> None:
    old = Interface(push=TAKEN.push, constants=TAKEN.constants)
    assert packed(constants={**CONSTANTS, "WIDTH": 1}, interface=old) == packed()
    with pytest.raises(LaunchMismatch, match="does not give: WIDE"):
        packed(constants={"THREADS": 64, "WIDTH": 1}, interface=old)


def test_a_unit_without_push_constants_takes_none() -> None:
    assert packed(push={}, constants={}, interface=Interface(dropped=())).push == b""


DIVISORS = (1, 2, 3, 5, 7, 64, 641, 1023, 1025, 65535, 65537, 6700417, 2**30 + 1, 2**31 - 1)


@pytest.mark.parametrize("number", DIVISORS)
def test_quotients_are_exact_at_both_sides_of_every_multiple(number: int) -> None:
    found = divisor(number)
    assert found["number"] == number
    multiplier, shift = found["multiplier"], found["shift"]
    assert multiplier < 2**32
    times = np.unique(np.geomspace(1, max(1, (MOST_DIVIDED - 1) // number), 500).astype(np.uint64))
    multiples = times * np.uint64(number)
    indices = np.concatenate([multiples - np.uint64(1), multiples, [0, MOST_DIVIDED - 1]]).astype(
        np.uint64
    )
    high = (indices * np.uint64(2) * np.uint64(multiplier)) >> np.uint64(32)
    assert np.array_equal(high >> np.uint64(shift), indices // np.uint64(number))
