"""Products whose lanes decode their elements of matrices: how they are cut, and who refuses."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from planted_devices import MATRICES as WIDE
from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Launch, Variant
from vkbench_shaders.kernels.matrices.cooperative import fragments
from vkbench_shaders.tuning.configurations import for_auto, obstacle

DEVICE = replace(WIDE, features=(*WIDE.features, "matrix_f16_f32_16x8x16"))
CPU = replace(
    DEVICE,
    type="cpu",
    subgroup_size=8,
    compute_units=4,
    features=(*DEVICE.features[:-2], "matrix_f16_f32_8x8x8"),
)


def variant() -> Variant:
    return kernel_named("mul_mat").variant(fragments.NAME)


def launched(case: str, device: DeviceFacts = DEVICE) -> Launch:
    (only,) = variant().launches(problem(f"mul_mat/{case}"), device)
    return only


@pytest.mark.parametrize(
    ("case", "device", "entry", "tall", "groups", "threads", "turns"),
    [
        ("q4_0/m4096_n8_k14336", DEVICE, "16x8x16", 1, 128, 512, 7),
        ("q4_0/m4096_n9_k14336", DEVICE, "16x16x16", 1, 128, 256, 14),
        ("q4_0/m4096_n1_k14336", WIDE, "16x16x16", 1, 128, 256, 14),
        ("q4_0/m4096_n17_k14336", DEVICE, "16x16x16", 1, 256, 256, 14),
        ("q4_0/m1000_n8_k4096", DEVICE, "16x8x16", 0, 63, 512, 2),
        ("q4_0/m64_n8_k288", DEVICE, "16x8x16", 0, 4, 128, 1),  # more subgroups had nothing to do
        ("q4_0/m64_n8_k4096/batch2=3,repeat2=40", DEVICE, "16x8x16", 1, 240, 512, 2),
        ("q4_0/m64_n12_k4096", CPU, "8x8x8", 0, 16, 32, 4),
    ],
)
def test_rows_and_chunks_keep_a_device_busy(
    case: str, device: DeviceFacts, entry: str, tall: int, groups: int, threads: int, turns: int
) -> None:
    found = launched(case, device)
    assert found.entry == f"fragments_{entry}"
    assert (found.constants["TALL"], prod(found.groups)) == (tall, groups)
    assert (found.constants["THREADS"], found.push["turns"]) == (threads, turns)


def test_workgroups_are_smaller_where_shared_memory_is() -> None:
    little = {**DEVICE.limits, "max_shared_bytes": 32768}
    found = launched("q4_0/m4096_n8_k14336", replace(DEVICE, limits=little))
    assert (found.constants["THREADS"], found.push["turns"]) == (256, 14)
    few = {**DEVICE.limits, "max_workgroup_invocations": 128}
    found = launched("q4_0/m4096_n8_k14336", replace(DEVICE, limits=few))
    assert (found.constants["THREADS"], found.push["turns"]) == (128, 28)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("q4_0:x=f16/m64_n8_k64/layout=strided", "no whole fours"),
        ("q4_0/m64_n8_k64/tile=64x64", "has no tiles of 64x64"),
        ("q4_0/m1_n1_k32", "rounds its factors"),
        ("q4_0:x=q8_1/m64_n8_k64", "is not for"),
        ("f16/m64_n8_k64", "is not for"),
    ],
)
def test_what_it_cannot_read_is_refused(case: str, reason: str) -> None:
    assert reason in obstacle(problem(f"mul_mat/{case}"), variant(), DEVICE)


def test_devices_without_room_or_matrices_are_refused() -> None:
    posed = problem("mul_mat/iq1_s/m64_n8_k256")
    assert not obstacle(posed, variant(), DEVICE)
    little = replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": 9000})
    assert "of shared memory, the device has 808" in obstacle(posed, variant(), little)
    without = replace(DEVICE, features=DEVICE.features[:-2])
    assert "needs cooperative matrices of f16" in obstacle(posed, variant(), without)
    assert obstacle(posed, variant(), replace(DEVICE, subgroup_size=64))


@pytest.mark.parametrize(
    ("case", "taken"),
    [
        ("mul_mat/q4_0/m4096_n1_k14336", "coopmat_fragments"),
        ("mul_mat/q4_0/m4096_n16_k14336", "coopmat_fragments"),
        ("mul_mat/q4_0/m4096_n17_k14336", "coopmat_decoding"),
        ("mul_mat/f16/m4096_n16_k14336", "coopmat_decoding"),
        ("mul_mat_vec/q4_0/m4096_n9_k14336", "subgroup"),  # rounds nothing
    ],
)
def test_auto_takes_it_for_few_vectors(case: str, taken: str) -> None:
    assert for_auto(problem(case), DEVICE)[0].name == taken
