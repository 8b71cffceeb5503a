"""The only importer of `vulkan`: its raw library, checked results, structs with their type.

`vk.ffi` and `vk.lib` appear on first use, so that importing this module needs neither the package
nor a loader. The raw library is called rather than the package's wrappers, which cost three to five
times as much a call.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Final

from vkbench_worker.runtime.errors import (
    DeviceLost,
    NoBinding,
    NoDevice,
    NoLoader,
    OutOfMemory,
    Unsupported,
    VulkanFailure,
)

WHOLE: Final = 0xFFFFFFFFFFFFFFFF  # VK_WHOLE_SIZE
TIMEOUT: Final = 2  # VK_TIMEOUT
UNIFORM_BUFFER: Final = 6  # VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
STORAGE_BUFFER: Final = 7  # VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
TIMESTAMP: Final = 2  # VK_QUERY_TYPE_TIMESTAMP
COMPUTE_PIPELINE: Final = 1  # VK_PIPELINE_BIND_POINT_COMPUTE
ROBUST_BUFFER_ACCESS: Final = 2  # VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT
COMPUTE_SHADER: Final = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
FULL_SUBGROUPS: Final = 2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
CAPTURE_STATISTICS: Final = 0x40  # VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
GRAPHICS_QUEUE: Final = 0x1  # VK_QUEUE_GRAPHICS_BIT
COMPUTE_QUEUE: Final = 0x2  # VK_QUEUE_COMPUTE_BIT
TRANSFER_QUEUE: Final = 0x4  # VK_QUEUE_TRANSFER_BIT
VIDEO_QUEUES: Final = 0x160  # VK_QUEUE_VIDEO_DECODE, ENCODE_BIT_KHR, OPTICAL_FLOW_BIT_NV
CONCURRENT: Final = 1  # VK_SHARING_MODE_CONCURRENT
SUBGROUP_SCOPE: Final = 3  # VK_SCOPE_SUBGROUP_KHR
SETTING_BOOL: Final = 0  # VK_LAYER_SETTING_TYPE_BOOL32_EXT
GPU_ASSISTED: Final = 0  # VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT
GPU_ASSISTED_SLOT: Final = 1  # VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT
SYNCHRONISATION: Final = 4  # VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT


class Stage(IntFlag):
    """Vulkan's flags VkPipelineStageFlagBits, as used here."""

    TOP = 0x1
    COMPUTE = 0x800
    TRANSFER = 0x1000
    BOTTOM = 0x2000
    HOST = 0x4000


class Access(IntFlag):
    """Vulkan's flags VkAccessFlagBits, as used here."""

    UNIFORM_READ = 0x8
    SHADER_READ = 0x20
    SHADER_WRITE = 0x40
    TRANSFER_READ = 0x800
    TRANSFER_WRITE = 0x1000
    HOST_READ = 0x2000
    HOST_WRITE = 0x4000


class Memory(IntFlag):
    """Vulkan's flags VkMemoryPropertyFlagBits, as used here."""

    DEVICE_LOCAL = 0x1
    HOST_VISIBLE = 0x2
    HOST_COHERENT = 0x4
    HOST_CACHED = 0x8


class Usage(IntFlag):
    """Vulkan's flags VkBufferUsageFlagBits, as used here."""

    COPIED_FROM = 0x1
    COPIED_TO = 0x2
    UNIFORM = 0x10
    STORAGE = 0x20
    ADDRESSED = 0x20000


class QueryResult(IntFlag):
    """Vulkan's flags VkQueryResultFlagBits, as used here."""

    BITS_64 = 0x1
    WAIT = 0x2


class Subgroup(IntFlag):
    """Vulkan's flags VkSubgroupFeatureFlagBits, as used here."""

    BASIC = 0x1
    VOTE = 0x2
    ARITHMETIC = 0x4
    SHUFFLE = 0x10


class Severity(IntFlag):
    """Vulkan's flags VkDebugUtilsMessageSeverityFlagBitsEXT, as used here."""

    WARNING = 0x100
    ERROR = 0x1000


class MessageType(IntFlag):
    """Vulkan's flags VkDebugUtilsMessageTypeFlagBitsEXT, as used here."""

    GENERAL = 0x1
    VALIDATION = 0x2
    PERFORMANCE = 0x4


STRUCTURE_TYPES: Final = {
    "VkApplicationInfo": 0,
    "VkInstanceCreateInfo": 1,
    "VkDeviceQueueCreateInfo": 2,
    "VkDeviceCreateInfo": 3,
    "VkSubmitInfo": 4,
    "VkMemoryAllocateInfo": 5,
    "VkFenceCreateInfo": 8,
    "VkSemaphoreCreateInfo": 9,
    "VkQueryPoolCreateInfo": 11,
    "VkBufferCreateInfo": 12,
    "VkShaderModuleCreateInfo": 16,
    "VkPipelineCacheCreateInfo": 17,
    "VkPipelineShaderStageCreateInfo": 18,
    "VkComputePipelineCreateInfo": 29,
    "VkPipelineLayoutCreateInfo": 30,
    "VkDescriptorSetLayoutCreateInfo": 32,
    "VkDescriptorPoolCreateInfo": 33,
    "VkDescriptorSetAllocateInfo": 34,
    "VkWriteDescriptorSet": 35,
    "VkCommandPoolCreateInfo": 39,
    "VkCommandBufferAllocateInfo": 40,
    "VkCommandBufferBeginInfo": 42,
    "VkMemoryBarrier": 46,
    "VkPhysicalDeviceFeatures2": 1000059000,
    "VkPhysicalDeviceProperties2": 1000059001,
    "VkMemoryAllocateFlagsInfo": 1000060000,
    "VkPipelineRobustnessCreateInfoEXT": 1000068000,
    "VkPhysicalDeviceIDProperties": 1000071004,
    "VkPhysicalDeviceSubgroupProperties": 1000094000,
    "VkDebugUtilsMessengerCreateInfoEXT": 1000128004,
    "VkPhysicalDeviceMaintenance3Properties": 1000168000,
    "VkPhysicalDeviceDriverProperties": 1000196000,
    "VkSemaphoreTypeCreateInfo": 1000207002,
    "VkPhysicalDeviceMemoryProperties2": 1000059006,
    "VkPhysicalDeviceMemoryBudgetPropertiesEXT": 1000237000,
    "VkTimelineSemaphoreSubmitInfo": 1000207003,
    "VkSemaphoreWaitInfo": 1000207004,
    "VkPhysicalDevicePCIBusInfoPropertiesEXT": 1000212000,
    "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo": 1000225001,
    "VkValidationFeaturesEXT": 1000247000,
    "VkPipelineInfoKHR": 1000269001,
    "VkPipelineExecutablePropertiesKHR": 1000269002,
    "VkPipelineExecutableInfoKHR": 1000269003,
    "VkPipelineExecutableStatisticKHR": 1000269004,
    "VkLayerSettingsCreateInfoEXT": 1000496000,
    "VkCooperativeMatrixPropertiesKHR": 1000506001,
}

_FAILURES: Final = {
    -1: (OutOfMemory, "VK_ERROR_OUT_OF_HOST_MEMORY"),
    -2: (OutOfMemory, "VK_ERROR_OUT_OF_DEVICE_MEMORY"),
    -3: (VulkanFailure, "VK_ERROR_INITIALIZATION_FAILED"),
    -4: (DeviceLost, "VK_ERROR_DEVICE_LOST"),
    -5: (VulkanFailure, "VK_ERROR_MEMORY_MAP_FAILED"),
    -6: (VulkanFailure, "VK_ERROR_LAYER_NOT_PRESENT"),
    -7: (VulkanFailure, "VK_ERROR_EXTENSION_NOT_PRESENT"),
    -8: (Unsupported, "VK_ERROR_FEATURE_NOT_PRESENT"),
    -9: (NoDevice, "VK_ERROR_INCOMPATIBLE_DRIVER"),
    -10: (OutOfMemory, "VK_ERROR_TOO_MANY_OBJECTS"),
    -12: (OutOfMemory, "VK_ERROR_FRAGMENTED_POOL"),
    -1000069000: (OutOfMemory, "VK_ERROR_OUT_OF_POOL_MEMORY"),
}


def __getattr__(name: str) -> Any:
    if name not in ("ffi", "lib"):
        raise AttributeError(name)
    _load()
    return globals()[name]


def _load() -> None:
    try:
        from vulkan._vulkan import ffi, lib
    except ModuleNotFoundError as error:
        raise NoBinding() from error
    except OSError as error:
        raise NoLoader() from error
    globals().update(ffi=ffi, lib=lib)


def struct(kind: str, *, next: Any = None, **members: Any) -> Any:
    """A Vulkan struct, its type and members set; the caller keeps alive what it points to."""
    ffi = globals().get("ffi") or __getattr__("ffi")
    record = ffi.new(f"{kind} *")
    if kind in STRUCTURE_TYPES:
        record.sType = STRUCTURE_TYPES[kind]
    if next is not None:
        record.pNext = ffi.cast("void *", next)
    for name, value in members.items():
        setattr(record, name, value)
    return record


def check(result: int, call: str) -> None:
    """Raise what a negative VkResult means; VK_SUCCESS and the other good codes pass."""
    if result >= 0:
        return
    kind, name = _FAILURES.get(result, (VulkanFailure, f"VkResult {result}"))
    if kind is NoDevice:
        raise NoDevice()
    raise kind(f"{call}: {name}")


def enumerate_all(call: str, kind: str, *arguments: Any) -> Any:
    """What an enumerating call lists: asked first for the number, then for that many.

    The whole array is returned, for a slice of it would not keep its memory alive.
    """
    ffi, function = __getattr__("ffi"), getattr(__getattr__("lib"), call)
    count = ffi.new("uint32_t *")
    check(function(*arguments, count, ffi.NULL) or 0, call)
    records = ffi.new(f"{kind}[]", count[0])
    check(function(*arguments, count, records) or 0, call)
    return records


def text(characters: Any) -> str:
    """A C string of the driver's."""
    raw: bytes = __getattr__("ffi").string(characters)
    return raw.decode(errors="replace")


def version(number: int) -> str:
    """A packed Vulkan version as 1.3.0."""
    return f"{number >> 22 & 0x7F}.{number >> 12 & 0x3FF}.{number & 0xFFF}"
