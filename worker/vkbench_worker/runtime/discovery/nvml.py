"""A GPU as NVIDIA's management library knows it."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def find_gpu(uuid: str) -> tuple[Any, Any] | None:
    """The library, and its handle of a GPU; None where nvidia-ml-py or the GPU is not there."""
    try:
        import pynvml
    except ModuleNotFoundError:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(name_uuid(uuid).encode())
    except pynvml.NVMLError:
        return None


def name_uuid(uuid: str) -> str:
    """A UUID of Vulkan, 32 hex digits, as NVIDIA writes it."""
    return f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
