"""Devices are asked where they keep elements of cooperative matrices, and any answer is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planted_probe import compiled, probed
from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import FRAGMENTS, PACKING, Bundle
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime import fragments
from vkbench_worker.runtime.fragments import COLUMNS, QUADS, UNKNOWN, columns, order, places, quads
from vkbench_worker.runtime.packing import pack_on_device
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.runtime.vulkan.pipelines import Pipelines

LARGE = ("coopmat", "fp16", "matrix_f16_f32")
SMALL = "matrix_f16_f32_8x8x8"
CASES = (
    "s2_h4_g2_q40_n37_d64_e64/layout=strided,mask=blocks,sinks=yes",
    "s1_h2_g1_q70_n600_d40_e80/softcap=10.0",
)


def test_every_element_has_one_place() -> None:
    for found, side in ((quads(), 16), (columns(), 8)):
        assert sorted(found.ravel()) == list(range(side * side))


PROBE = """
import attention.flash_fragments;
[[vk::binding(0)]] StructuredBuffer<uint> x;
[[vk::binding(1)]] RWStructuredBuffer<uint> to;
[shader("compute")]
[numthreads(32, 1, 1)]
void probe(uint lane : SV_GroupIndex, uint3 id : SV_DispatchThreadID)
{
    Quads found = Quads(0, lane);
    for (int i = 0; i < 8; i++) to[lane * 8 + i] = found.row(found.slot(i)) * 16 + found.column(i);
}
"""


def test_shaders_say_of_quads_what_the_host_does(lavapipe: VulkanDevice, tmp_path: Path) -> None:
    code = compiled(PROBE, tmp_path)
    found = probed(lavapipe, code, np.zeros(4, np.uint32), 256, (1, 1, 1))
    assert np.array_equal(found.reshape(32, 8), quads())


@pytest.mark.parametrize(
    ("features", "lanes", "found", "wanted"),
    [
        (LARGE, 32, [quads(), quads()], QUADS),
        (LARGE, 32, [quads(), quads().T.reshape(32, 8)], UNKNOWN),
        (LARGE, 32, [quads().T.reshape(32, 8), quads()], UNKNOWN),
        (LARGE, 64, [quads(), quads()], UNKNOWN),
        ((*LARGE[:2], SMALL), 8, [columns(), columns()], COLUMNS),
        ((*LARGE, SMALL), 8, [columns(), columns()], UNKNOWN),
        (LARGE[1:], 32, [quads(), quads()], UNKNOWN),
    ],
)
def test_what_a_device_does_decides(
    lavapipe: VulkanDevice,
    monkeypatch: pytest.MonkeyPatch,
    features: tuple[str, ...],
    lanes: int,
    found: list[np.ndarray],
    wanted: int,
) -> None:
    facts = replace(lavapipe.facts, features=features, subgroup_size=lanes)
    monkeypatch.setattr(lavapipe, "facts", facts)
    monkeypatch.setattr(fragments, "places", lambda *_: np.array(found))
    assert order(lavapipe) == wanted


@pytest.fixture
def matrices(lavapipe: VulkanDevice) -> VulkanDevice:
    if SMALL not in lavapipe.facts.features:
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    return lavapipe


def test_lavapipe_has_columns(matrices: VulkanDevice, bundle: Bundle) -> None:
    """Also where another probe ran before, as on GPUs: each has a pipeline of its own."""
    pack_on_device(matrices, bundle.code(PACKING.key), np.zeros(128, np.float32))
    unit = bundle.entry(FRAGMENTS[8].key)
    found = places(matrices, bundle.code(unit.key), 8, unit.sha256)
    assert all(np.array_equal(each, columns()) for each in found)
    assert dict(matrices.constants)[fragments.CONSTANT] == COLUMNS


@pytest.fixture
def orderless(matrices: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[VulkanDevice]:
    """A device that tells shaders that it has no order that they know."""
    made = Pipelines(matrices._make_pipeline, 0)
    constants = {**dict(matrices.constants), fragments.CONSTANT: UNKNOWN}
    monkeypatch.setattr(matrices, "constants", tuple(constants.items()))
    monkeypatch.setattr(matrices, "_pipelines", made)
    yield matrices
    made.close()


@pytest.mark.parametrize("case", CASES)
def test_attention_is_right_in_any_order(
    orderless: VulkanDevice, bundle: Bundle, case: str
) -> None:
    job = Job(
        id=1,
        token=1,
        case=f"flash_attn/f16/{case}{',' if '=' in case else '/'}path=tiles",
        mode=Mode.CORRECTNESS,
        variant="coopmat",
    )
    result = execute(orderless, bundle, job)
    assert result.outcome is Outcome.PASSED, f"{result.reason} {result.verdict}"


@pytest.mark.parametrize(
    ("case", "variant"),
    [
        ("q4_K/m37_n5_k768", "coopmat_fragments"),
        ("q8_0/m13_n9_k96", "coopmat_fragments"),
        ("q4_0/m37_n19_k96", "coopmat_via_q8_1"),
    ],
)
def test_products_are_right_in_any_order(
    orderless: VulkanDevice, bundle: Bundle, case: str, variant: str
) -> None:
    job = Job(id=1, token=1, case=f"mul_mat/{case}", mode=Mode.CORRECTNESS, variant=variant)
    result = execute(orderless, bundle, job)
    assert result.outcome is Outcome.PASSED, f"{result.reason} {result.verdict}"
