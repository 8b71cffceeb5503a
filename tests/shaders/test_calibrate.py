"""The chains of calibration are exact: their short references are what step after step leads to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.kernel import Kernel
from vkbench_shaders.kernels.calibration import calibrate
from vkbench_shaders.kernels.calibration.calibrate import ADDEND, FACTOR, FMA, LAST, STEPS
from vkbench_shaders.kernels.calibration.matrix_rate import MATRIX_RATE, MATRIX_RATE_8
from vkbench_shaders.kernels.calibration.submissions import SUBMISSIONS

CPU = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a CPU driver", uuid="00", vendor_id=0, device_id=0,
    type="cpu", memory_bytes=1 << 30, subgroup_size=8, features=(), limits={},
)  # fmt: skip
GPU = replace(CPU, type="discrete", limits={"max_storage_range": (1 << 32) - 1})


@pytest.mark.parametrize("case", FMA.cases, ids=str)
def test_multiply_adds_add_one_a_round_and_round_nothing(case: str) -> None:
    posed = problem(case)
    inputs = FMA.inputs(posed)
    values = inputs["x"]
    number = values.dtype.type
    for step in range(STEPS * posed.shape["r"]):
        addend = LAST if step % STEPS == STEPS - 1 else ADDEND
        values = number(FACTOR) * values + number(addend)
        assert values.dtype == inputs["x"].dtype
    wanted = FMA.check.reference(posed, inputs, None)["y"]
    np.testing.assert_array_equal(values.astype("f8"), wanted)
    assert not np.array_equal(values, inputs["x"])


@pytest.mark.parametrize("case", [*MATRIX_RATE.cases, *MATRIX_RATE_8.cases], ids=str)
def test_products_of_matrices_are_whole_numbers_that_their_sums_hold(case: str) -> None:
    posed = problem(case)
    inputs = posed.kernel.inputs(posed)
    wide = inputs["x"].dtype
    factors = {
        name: (inputs[name].astype("u4") << 16).view("f4")
        if posed.types["a"] == "bf16"
        else inputs[name].astype("f4")
        for name in "abcd"
    }
    sums = inputs["x"]
    for step in range(STEPS * posed.shape["r"]):
        right = "d" if step % STEPS == STEPS - 1 else "bc"[step % 2]
        product = factors["a"] @ factors[right]
        sums = sums + product.astype(wide)  # rounded where it does not fit
        assert np.abs(sums).max() <= 2048
    wanted = posed.kernel.check.reference(posed, inputs, None)["y"]
    np.testing.assert_array_equal(sums, wanted)
    assert (sums != inputs["x"]).any()


@pytest.mark.parametrize("kernel", calibrate.CALIBRATE, ids=lambda kernel: kernel.name)
def test_a_cpu_driver_has_a_small_case_and_a_gpu_takes_all(kernel: Kernel) -> None:
    refused: dict[str, list[str | None]] = {CPU.type: [], GPU.type: []}
    for case in kernel.timed:
        posed = problem(case)
        [variant] = kernel.variants_for(posed.types)
        for device in (CPU, GPU):
            refused[device.type].append(variant.refuses(posed, device))
    assert not any(refused["discrete"])
    assert kernel is MATRIX_RATE or not all(refused["cpu"])


def test_what_would_not_be_exact_is_refused() -> None:
    for name, reason in (
        ("fma/f16/n2_r1025", "exact for 1024 rounds"),
        ("fma/f16/n3_r1", "n is even"),
        ("matrix_rate/f16/t8_m16_n16_k16_r1025", "exact for 1024 rounds"),
        ("matrix_rate/f16/t9_m16_n16_k16_r1", "multiple of 8"),
        ("matrix_rate/f16/t8_m16_n16_k32_r1", "k=16"),
        ("matrix_rate_8/i8:x=i32/t8_m16_n16_k32_r1", "m=8, n=8, k=8"),
    ):
        posed = problem(name)
        [variant] = posed.kernel.variants_for(posed.types)
        assert reason in str(variant.refuses(posed, GPU))


def test_the_group_is_in_the_catalogue() -> None:
    found = [k for k in KERNELS if k.group == calibrate.GROUP]
    assert found == [*calibrate.CALIBRATE, *SUBMISSIONS]
