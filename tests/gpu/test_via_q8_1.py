"""Products that round their vectors: the path for devices without dot products, and odd vectors."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.runner.execute import compute
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.device import Device
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.timed import check

FORMATS = ("q4_0", "q5_1", "q2_K", "q6_K", "tq2_0", "iq3_s", "nvfp4")
CASES = (
    *(f"mul_mat_vec/{fmt}/m13_n3_k512" for fmt in FORMATS),
    "mul_mat_vec/q1_0:x=f16/m67_n7_k256/layout=strided",
    "mul_mat_vec_id/q2_0/e5_u2_m31_n5_k1024/x=expert",
)


@pytest.mark.parametrize("case", CASES)
def test_devices_without_integer_dot_products_have_it(
    swiftshader: Device, bundle: Bundle, case: str
) -> None:
    posed = problem(case)
    facts = replace(swiftshader.facts, features=())
    chosen = choose(posed, "via_q8_1", facts)
    planned = plan(bundle, chosen, facts)
    assert planned.passes[-1][0].code == bundle.code(
        f"{posed.kernel.name}/{posed.kernel.name}_bytes_portable<{posed.types['weights']}>"
    )
    with ExitStack() as stack:
        prepared = prepare(posed)
        bench = Bench(swiftshader, planned, prepared.storages, stack)
        verdict = check(bench, chosen.variant.arithmetic, prepared).verdict
    assert verdict.passed, verdict.reason


def products(device: Device, bundle: Bundle, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of q8_0 weights with vectors: by via_q8_1, and exact."""
    posed = problem(f"mul_mat_vec/q8_0/m5_n{len(x)}_k{x.shape[1]}")
    arrays = {**posed.kernel.inputs(posed), "x": x.astype(np.float32)}
    found, path = compute(device, bundle, posed, "via_q8_1", arrays)
    assert path == "via_q8_1"
    return found["y"], posed.kernel.reference(posed, arrays, None)["y"]


def test_vectors_of_any_size_keep_their_scale(lavapipe: Device, bundle: Bundle) -> None:
    ones = np.resize(np.array([1.0, -127.0, 64.0, 0.0]), (1, 64))
    y, exact = products(lavapipe, bundle, np.vstack([ones * size for size in (1e35, 1, 1e-33)]))
    np.testing.assert_allclose(y, exact, rtol=1e-4)
    y, _ = products(lavapipe, bundle, np.vstack([ones * 0, ones * 1e-39]))
    assert not y.any()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(lavapipe: Device, bundle: Bundle, odd: float) -> None:
    x = np.ones((3, 96))
    x[1, 40] = odd
    y, exact = products(lavapipe, bundle, x)
    assert not np.isfinite(y[1]).any()
    np.testing.assert_allclose(y[[0, 2]], exact[[0, 2]], rtol=1e-4)
