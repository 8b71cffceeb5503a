"""Products of bytes by cooperative matrices are right, and wrong where a mistake is planted."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from other_facts import checked
from vkbench.device import NVIDIA
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle, manifest_text, packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.tree import TREE, source_of
from vkbench_worker.runner.execute import compute, execute
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
UNIT = Unit(module="byte_product", entry="bytes_16x32_8x8x8", arguments=("q4_0_piece",))
ORDER = "panel_vector(line % 8)"  # of vectors in a panel


@pytest.fixture
def matrices(lavapipe: VulkanDevice) -> VulkanDevice:
    if "matrix_i8_i32_8x8x8" not in lavapipe.facts.features:
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    return lavapipe


def run(device: VulkanDevice, bundle: Bundle, case: str) -> Result:
    variant = "coopmat_i8" if "q8_1" in case else "coopmat_via_q8_1"
    job = Job(id=1, token=1, case=f"mul_mat/{case}", mode=Mode.CORRECTNESS, variant=variant)
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


def test_vectors_in_another_order_are_seen(matrices: VulkanDevice, tmp_path: Path) -> None:
    copytree(TREE, tmp_path, dirs_exist_ok=True)
    source = source_of(UNIT.module, tmp_path)
    assert ORDER in source.read_text()
    source.write_text(source.read_text().replace(ORDER, "line % 8"))
    code = compiler.find().compile(UNIT, tmp_path)
    sha, whole = sha256(code).hexdigest(), packaged()
    wrong = replace(whole.entry(UNIT.key), sha256=sha, bytes=len(code))
    entries = tuple({**whole.entries, UNIT.key: wrong}.values())
    manifest = whole.manifest
    text = manifest_text(manifest.slang, manifest.tree, entries, manifest.interfaces)
    planted = Bundle(text=text, blobs={**whole.blobs, sha: code}, name="planted")
    assert run(matrices, planted, "q4_0/m31_n33_k512").outcome is Outcome.WRONG
