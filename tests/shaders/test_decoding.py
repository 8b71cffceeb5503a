"""Products of few vectors whose workgroups decode weights: how they are cut, and who refuses."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import cast

import pytest

from planted_devices import MATRICES as DEVICE
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Launch, Variant
from vkbench_shaders.kernels.matrices.cooperative import decoding
from vkbench_shaders.tuning.configurations import for_auto, obstacle


def variant() -> Variant:
    return kernel_named("mul_mat").variant(decoding.NAME)


def launched(case: str) -> tuple[Launch, ...]:
    return variant().launches(problem(case), DEVICE)


@pytest.mark.parametrize(
    ("case", "tall", "tiles", "parts"),
    [
        ("q4_0/m4096_n16_k14336", 1, 32, 16),
        ("q4_0/m4096_n17_k14336", 2, 32, 16),
        ("q4_0/m4096_n96_k14336", 2, 96, 5),
        ("q4_0/m4000_n33_k4096", 2, 64, 8),
        ("q4_0/m100_n5_k256", 1, 1, 1),  # too few numbers for parts
        ("q4_0/m100_n5_k4096/batch2=3,repeat2=2", 1, 6, 16),
    ],
)
def test_parts_of_k_keep_a_device_busy(case: str, tall: int, tiles: int, parts: int) -> None:
    first, *adding = launched(f"mul_mat/{case}")
    assert first.constants["TALL"] == tall
    assert prod(first.groups) == tiles * parts
    assert [launch.entry for launch in adding] == ["add_parts"][: parts - 1]
    assert variant().own.scratch(problem(f"mul_mat/{case}"), DEVICE)[0] > 0 or parts == 1
    assert ceil(cast(int, first.push["steps"]) / cast(int, first.push["part"])) == parts


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("f16/m64_n8_k100", "no whole eights"),
        ("f16:x=f16/m64_n8_k64/layout=strided", "no whole eights"),
        ("q4_0/m64_n8_k64/tile=64x64", "has no tiles of 64x64"),
        ("q4_0/m1_n1_k32", "rounds its factors"),
        ("q4_0:x=q8_1/m64_n8_k64", "is not for"),
        ("bf16/m64_n8_k64", "is not for"),
    ],
)
def test_what_it_cannot_read_is_refused(case: str, reason: str) -> None:
    assert reason in obstacle(problem(f"mul_mat/{case}"), variant(), DEVICE)


def test_devices_without_room_or_matrices_are_refused() -> None:
    posed = problem("mul_mat/iq1_s/m64_n32_k256")
    assert not obstacle(posed, variant(), DEVICE)
    little = replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": 16384})
    assert "of shared memory, the device has 8192" in obstacle(posed, variant(), little)
    without = replace(DEVICE, features=DEVICE.features[:-1])
    assert "needs cooperative matrices of f16" in obstacle(posed, variant(), without)


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("q4_0/m4096_n17_k14336", decoding.NAME),
        ("f16/m4096_n1_k14336", decoding.NAME),
        ("q4_0/m4096_n33_k14336", "coopmat"),
        ("q4_0/m16_n16_k14336", "portable"),
        ("f32/m4096_n16_k14336", "portable"),  # which rounds nothing
    ],
)
def test_auto_takes_it_for_few_vectors(case: str, first: str) -> None:
    assert for_auto(problem(f"mul_mat/{case}"), DEVICE)[0].name == first
