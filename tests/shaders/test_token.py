"""Attention of a new token fits what a device has, or says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernels.attention import token

KERNEL = kernel_named("flash_attn_token")
DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a device", uuid="00", vendor_id=0, device_id=0,
    type="cpu", memory_bytes=1 << 40, subgroup_size=32, features=(),
    limits={
        "max_storage_range": 1 << 32, "max_shared_bytes": 49152, "max_workgroup_invocations": 1024,
    },
)  # fmt: skip
SMALL = replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": 16384})


def case(n: int = 64, d: int = 128, more: str = "", fmt: str = "f16:y=q8_1") -> str:
    return f"flash_attn_token/{fmt}/s1_h4_g2_n{n}_d{d}{more}"


@pytest.mark.parametrize("subgroup", [4, 8, 32, 64])
@pytest.mark.parametrize("d", [8, 64, 96, 128, 256])
def test_lanes_hold_all_of_a_head_and_threads_whole_positions(subgroup: int, d: int) -> None:
    device = replace(DEVICE, subgroup_size=subgroup)
    posed = problem(case(d=d, fmt="f16"))
    if token.refuses(posed, device):
        assert d // 8 > 4 * subgroup
        return
    found = token.launch(posed, device).constants
    assert found["LANES"] <= subgroup
    assert found["LANES"] * found["EACH"] >= d // 8
    assert found["THREADS"] % subgroup == found["THREADS"] % found["LANES"] == 0
    slots = found["THREADS"] // found["LANES"]
    assert found["POOL"] == slots * (d // 8) * 2


@pytest.mark.parametrize("d", [64, 128, 256])
def test_the_portable_path_runs_on_small_devices_as_far_as_models_use_it(d: int) -> None:
    portable = KERNEL.variants[-1]
    for fmt in ("f16", "f16:y=q8_1"):
        assert not portable.refuses(problem(case(token.MOST_POSITIONS, d, fmt=fmt)), SMALL)


@pytest.mark.parametrize(
    ("name", "device", "reason"),
    [
        (case(), SMALL, "of shared memory"),
        (case(d=512), DEVICE, "room for 256"),
        (case(d=36, fmt="f16"), DEVICE, "not whole steps of 8"),
        (case(more="/mode=neox,n_dims=40"), DEVICE, "not whole steps of 16"),
        (case(more="/n_dims=136"), DEVICE, "136 of them turned"),
        ("flash_attn_token/f16/s1_h3_g2_n8_d64", DEVICE, "cannot share 2 evenly"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, device: DeviceFacts, reason: str) -> None:
    assert reason in (KERNEL.variants[0].refuses(problem(name), device) or "")
