"""Names of the calibration suite and of the cases that serve as canaries."""

from __future__ import annotations

SUITE = "calibration"  # the peak rates of a device are taken from its finished runs
CPU_CANARY = "fma/f32/n65536_r64"
GPU_CANARY = "fma/f32/n1048576_r256"  # 0.3 ms on a large GPU, 17 on a small one
CANARIES = (CPU_CANARY, GPU_CANARY)
# of a result's telemetry: the canary that was timed last before it, and when
CANARY_SECONDS = "canary_seconds"
CANARY_AT = "canary_at"
TICK = "tick_ns"  # the device's timestamp period


def canary_of(device_type: str) -> str:
    """The canary case of a kind of device; it never changes."""
    return CPU_CANARY if device_type == "cpu" else GPU_CANARY
