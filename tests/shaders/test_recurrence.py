"""How recurrences are shared out: workgroups as large as keep a device's compute units busy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planted_devices import hopper
from vkbench_shaders.catalogue import kernel_named, problem

DEVICE = hopper("subgroup_arithmetic", "subgroup_shuffle")


@pytest.mark.parametrize(
    ("units", "threads"),
    [(64, 256), (132, 256), (142, 256), (160, 128), (300, 128)],  # 128 workgroups of 256
)
def test_workgroups_are_large_where_nearly_all_units_have_one(units: int, threads: int) -> None:
    posed = problem("gated_delta_net/f32/s1_t1024_h32_g32_d128")
    device = replace(DEVICE, compute_units=units)
    variant, *_ = kernel_named("gated_delta_net").variants
    (launch,) = variant.launches(posed, device)
    assert launch.constants["THREADS"] == threads
