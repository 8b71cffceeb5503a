"""Cooperative matrices that a device has: their kinds, by the names that variants ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from vkbench_worker.runtime import vk

EXTENSION: Final = "VK_KHR_cooperative_matrix"
_F16, _F32, _I8, _I32, _BF16 = 0, 1, 3, 5, 1000141000  # component types
CALL: Final = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"

# name -> rows, columns and depth of a product, component types of factors and sums
KINDS: Final[Mapping[str, tuple[int, ...]]] = {
    "matrix_f16_f16": (16, 16, 16, _F16, _F16),
    "matrix_f16_f32": (16, 16, 16, _F16, _F32),
    "matrix_bf16_f32": (16, 16, 16, _BF16, _F32),
    "matrix_i8_i32": (16, 16, 32, _I8, _I32),
    "matrix_f16_f32_16x8x16": (16, 8, 16, _F16, _F32),
    "matrix_f16_f16_8x16x16": (8, 16, 16, _F16, _F16),
    "matrix_f16_f32_8x16x16": (8, 16, 16, _F16, _F32),
    "matrix_bf16_f32_8x16x16": (8, 16, 16, _BF16, _F32),
    "matrix_f16_f16_8x8x8": (8, 8, 8, _F16, _F16),
    "matrix_f16_f32_8x8x8": (8, 8, 8, _F16, _F32),
    "matrix_i8_i32_8x8x8": (8, 8, 8, _I8, _I32),
}


def kinds(call: Callable[..., int], device: Any) -> frozenset[str]:
    """Which of KINDS a subgroup of a VkPhysicalDevice multiplies; `call` is CALL's function."""
    shapes = {
        _shape(record)
        for record in _list_matrices(call, device)
        if record.scope == vk.SUBGROUP_SCOPE
    }
    return frozenset(name for name, kind in KINDS.items() if kind in shapes)


def _shape(record: Any) -> tuple[int, ...]:
    """As in KINDS; () where the two factors or the two sums are not of one type."""
    if record.AType != record.BType or record.CType != record.ResultType:
        return ()
    return (record.MSize, record.NSize, record.KSize, record.AType, record.CType)


def _list_matrices(call: Callable[..., int], device: Any) -> Any:
    count = vk.ffi.new("uint32_t *")
    vk.check(call(device, count, vk.ffi.NULL), CALL)
    records = vk.ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
    for record in records:
        record.sType = vk.STRUCTURE_TYPES["VkCooperativeMatrixPropertiesKHR"]
    vk.check(call(device, count, records), CALL)
    return records
