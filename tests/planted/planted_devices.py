"""Facts of devices that are not there, for tests of how work is cut for them."""

from __future__ import annotations

from vkbench.device import DeviceFacts


def hopper(*features: str) -> DeviceFacts:
    """An H200 with these features."""
    return DeviceFacts(
        key="0" * 12,
        host="h",
        index=0,
        name="NVIDIA H200",
        uuid="00",
        vendor_id=0x10DE,
        device_id=0,
        type="discrete",
        memory_bytes=1 << 40,
        subgroup_size=32,
        compute_units=132,
        features=features,
        limits={
            "max_storage_range": 1 << 40,
            "max_shared_bytes": 49152,
            "max_workgroup_invocations": 1024,
        },
    )


# one that lists 16 x 16 matrices of f16 alone
MATRICES = hopper(
    *("coopmat", "device_scope", "subgroup_basic", "subgroup_arithmetic", "fp16", "bf16"),
    *("int_dot", "matrix_f16_f32"),
)
