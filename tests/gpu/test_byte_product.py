"""Products of bytes by cooperative matrices are right, and wrong where a mistake is planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from other_facts import checked
from planted_edit import Edit, compile_edited_kernel
from vkbench.device import NVIDIA
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import compute, execute
from vkbench_worker.runner.variants import choose
from vkbench_worker.runtime.vulkan.device import VulkanDevice

# Ragged tiles and steps, batches, parts of k, places of rows, kinds of pieces and of vectors.
ROUNDED = (
    "q4_0/m97_n101_k768",
    "q8_0/m31_n33_k512/layout=strided",
    "q8_0:x=f16/m17_n2_k96/layout=strided",
    "q4_K/m13_n7_k256/batch2=2,batch3=2,repeat2=3,repeat3=2",
    "q3_K/m33_n1_k1024",
    "iq4_nl/m3_n17_k32",
    "q4_1/m9_n5_k96",
    "q5_0/m9_n5_k96",
    "q5_1/m17_n3_k96",
    "q5_K/m9_n3_k512",
    "iq4_xs/m9_n3_k256",
)
BLOCKS = (
    "q4_0:x=q8_1/m5_n3_k14336",
    "q8_0:x=q8_1/m33_n17_k256",
    "q4_K:x=q8_1/m31_n33_k512/layout=strided",
    "mxfp4:x=q8_1/m7_n9_k4096",
    "q4_0:x=q8_1/m1_n1_k32",
)


@pytest.fixture
def matrices(lavapipe: VulkanDevice) -> VulkanDevice:
    if "matrix_i8_i32_8x8x8" not in lavapipe.facts.features:
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    return lavapipe


def path_of(case: str) -> str:
    return "coopmat_i8" if "q8_1" in case else "coopmat_via_q8_1"


def run(device: VulkanDevice, bundle: Bundle, case: str) -> Result:
    name, path = f"mul_mat/{case}", path_of(case)
    job = Job(id=1, token=1, case=name, mode=Mode.CORRECTNESS, variant=path)
    return execute(device, bundle, job)


@pytest.mark.parametrize("case", [*ROUNDED, *BLOCKS])
def test_products_are_right(matrices: VulkanDevice, bundle: Bundle, case: str) -> None:
    result = run(matrices, bundle, case)
    assert result.outcome is Outcome.PASSED, f"{result.reason} {result.verdict}"


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(matrices: VulkanDevice, bundle: Bundle, odd: float) -> None:
    posed = problem("mul_mat/q8_0/m5_n3_k96")
    x = np.ones((3, 96), np.float32)
    x[1, 40] = odd
    arrays = {**posed.kernel.inputs(posed), "x": x}
    found, _ = compute(matrices, bundle, posed, "coopmat_via_q8_1", arrays)
    exact = posed.kernel.check.reference(posed, arrays, None)["y"]
    assert not np.isfinite(found["y"][1]).any()
    np.testing.assert_allclose(found["y"][[0, 2]], exact[[0, 2]], rtol=1e-4)


def test_sums_that_are_scaled_as_they_are_converted_are_right(
    matrices: VulkanDevice, bundle: Bundle
) -> None:
    """By two roundings where this driver has them, which is off by 1e-5 of a sum."""
    facts = replace(matrices.facts, vendor_id=NVIDIA)
    case = "mul_mat/q4_0/m31_n33_k512"
    verdict, planned = checked(matrices, bundle, case, "coopmat_via_q8_1", facts)
    assert (4, 1) in planned.passes[1][1].constants  # FUSED
    assert verdict.passed, verdict.reason


# A case, what a source says, and what it says wrongly.
WRONG = {
    "rounded vectors in another order": (
        "q4_0/m31_n33_k512",
        Edit("panel_vector(line % 8)", "line % 8", "byte_product"),
    ),
    "blocks of vectors in another order": (
        "q4_0:x=q8_1/m31_n33_k512",
        Edit("panel_vector(line % 8)", "line % 8", "byte_product"),
    ),
    "a block's sum for its scale": (
        "q4_0:x=q8_1/m31_n33_k512",
        Edit("unpack_f16(x[at])", "unpack_f16(x[at] >> 16)", "byte_panels"),
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_in_one_expression_is_seen(
    matrices: VulkanDevice, bundle: Bundle, mistake: str
) -> None:
    case, edit = WRONG[mistake]
    chosen = choose(problem(f"mul_mat/{case}"), path_of(case), matrices.facts)
    planted = compile_edited_kernel(chosen, edit, matrices.facts)
    assert run(matrices, bundle, case).outcome is Outcome.PASSED
    assert run(matrices, planted, case).outcome is Outcome.WRONG
