"""Device features: probed, never assumed; what exists is enabled and has a short name.

Every Vulkan feature struct is a type, a pointer and then 32-bit truth values, so they are written
here as rows over raw memory: structs younger than the Python package's headers are then nothing
special.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vkbench_worker.runtime import vk


@dataclass(frozen=True, kw_only=True)
class FeatureStruct:
    """One feature struct of Vulkan and when a device may be asked about it."""

    type: int  # VkStructureType
    members: tuple[str, ...]
    extension: str = ""  # that brings it to devices below `core`
    core: int = 99  # minor version of Vulkan 1 that holds it


SUBSET = "VK_KHR_portability_subset"  # of devices that leave parts of Vulkan out


def _row(type: int, members: str, extension: str = "", core: int = 99) -> FeatureStruct:
    return FeatureStruct(type=type, members=tuple(members.split()), extension=extension, core=core)


STRUCTS = (
    _row(1000083000, "storage16 uniform16 push16 inout16", core=1),
    _row(1000120000, "variable_pointers_storage variable_pointers", core=1),
    _row(1000177000, "storage8 uniform8 push8", "VK_KHR_8bit_storage", 2),
    _row(1000082000, "fp16 int8", "VK_KHR_shader_float16_int8", 2),
    _row(1000257000, "bda bda_replay bda_multi_device", "VK_KHR_buffer_device_address", 2),
    _row(
        1000211000, "memory_model device_scope availability_chains", "VK_KHR_vulkan_memory_model", 2
    ),
    _row(1000207000, "timeline", "VK_KHR_timeline_semaphore", 2),
    _row(1000221000, "scalar_layout", "VK_EXT_scalar_block_layout", 2),
    _row(1000175000, "subgroup_extended_types", "VK_KHR_shader_subgroup_extended_types", 2),
    _row(1000280000, "int_dot", "VK_KHR_shader_integer_dot_product", 3),
    _row(1000225002, "subgroup_size_control full_subgroups", "VK_EXT_subgroup_size_control", 3),
    _row(1000413000, "maintenance4", "VK_KHR_maintenance4", 3),
    _row(1000325000, "zero_workgroup_memory", "VK_KHR_zero_initialize_workgroup_memory", 3),
    _row(
        1000336000,
        "shared_layout shared_scalar shared8 shared16",
        "VK_KHR_workgroup_memory_explicit_layout",
    ),
    _row(1000506000, "cooperative_matrix cooperative_robust", "VK_KHR_cooperative_matrix"),
    _row(1000141000, "bf16 bf16_dot bf16_matrix", "VK_KHR_shader_bfloat16"),
    _row(1000068001, "pipeline_robustness", "VK_EXT_pipeline_robustness"),
    _row(1000564000, "replicated_composites", "VK_EXT_shader_replicated_composites"),
)

# Asked for only by a device that tells them, as it may have a driver keep more of each pipeline.
STATISTICS = _row(1000269000, "pipeline_statistics", "VK_KHR_pipeline_executable_properties")

# What a variant may require -> the members that must all be there.
NAMES: Mapping[str, tuple[str, ...]] = {
    "subgroup_basic": ("subgroup_basic",),
    "subgroup_arithmetic": ("subgroup_arithmetic",),
    "subgroup_shuffle": ("subgroup_shuffle",),
    "subgroup_vote": ("subgroup_vote",),
    "int_dot": ("int_dot",),
    "fp16": ("fp16",),
    "storage16": ("storage16",),
    "uniform16": ("storage16", "uniform16"),
    "int8": ("int8",),
    "storage8": ("storage8",),
    "uniform8": ("storage8", "uniform8"),
    "int64": ("int64",),
    "fp64": ("fp64",),
    "bda": ("bda",),
    "device_scope": ("device_scope",),
    "timeline": ("timeline",),
    "coopmat": ("cooperative_matrix", "memory_model"),
    "bf16": ("bf16",),
    "subgroup_size_control": ("subgroup_size_control",),
    "full_subgroups": ("full_subgroups",),
}

# operations of subgroups, each with the basic ones
_SUBGROUP = {
    "subgroup_basic": vk.Subgroup.BASIC,
    "subgroup_arithmetic": vk.Subgroup.BASIC | vk.Subgroup.ARITHMETIC,
    "subgroup_shuffle": vk.Subgroup.BASIC | vk.Subgroup.SHUFFLE,
    "subgroup_vote": vk.Subgroup.BASIC | vk.Subgroup.VOTE,
}
_HEADER_WORDS = 4  # type, padding and pNext, in 32-bit words


class FeatureChain:
    """The feature structs that a device knows, filled by it; the same chain enables them all."""

    def __init__(self, physical: Any, minor: int, extensions: frozenset[str]) -> None:
        self._physical, self._available = physical, extensions
        self.queried = [s for s in STRUCTS if s.core <= minor or s.extension in extensions]
        self.extensions = sorted(s.extension for s in self.queried if s.core > minor)
        if SUBSET in extensions:  # a device that has it must be asked for it
            self.extensions.append(SUBSET)
        self._memory = [self._zero_struct(s) for s in self.queried]
        for memory, following in zip(self._memory, self._memory[1:], strict=False):
            memory[1] = int(vk.ffi.cast("uintptr_t", following))
        self.head = vk.struct("VkPhysicalDeviceFeatures2", next=self._memory[0])
        vk.lib.vkGetPhysicalDeviceFeatures2(physical, self.head)
        self.members = self._members(physical)
        self._keep_only_needed()

    def check_bounds(self) -> None:
        """Have a device that is made with these check the bounds of every pipeline."""
        self.head.features.robustBufferAccess = 1

    def capture_statistics(self) -> bool:
        """Have a device that is made with these tell them of pipelines; False if it cannot."""
        if STATISTICS.extension not in self._available:
            return False
        memory = self._zero_struct(STATISTICS)
        words = vk.ffi.cast("uint32_t *", memory)
        question = vk.struct("VkPhysicalDeviceFeatures2", next=memory)
        vk.lib.vkGetPhysicalDeviceFeatures2(self._physical, question)
        if not words[_HEADER_WORDS]:
            return False
        memory[1] = int(vk.ffi.cast("uintptr_t", self.head.pNext))
        self.head.pNext = vk.ffi.cast("void *", memory)
        self._memory.append(memory)
        self.extensions.append(STATISTICS.extension)
        return True

    def names(self) -> tuple[str, ...]:
        """vkbench's names of what the device has, sorted."""
        return tuple(
            sorted(name for name, needed in NAMES.items() if self.members.issuperset(needed))
        )

    @staticmethod
    def _zero_struct(struct: FeatureStruct) -> Any:
        memory = vk.ffi.new("uint64_t[]", (_HEADER_WORDS + len(struct.members) + 1) // 2)
        vk.ffi.cast("uint32_t *", memory)[0] = struct.type
        return memory

    def _members(self, physical: Any) -> frozenset[str]:
        core = self.head.features
        members = {"int64": core.shaderInt64, "fp64": core.shaderFloat64}
        for struct, memory in zip(self.queried, self._memory, strict=True):
            words = vk.ffi.cast("uint32_t *", memory)
            members |= {name: words[_HEADER_WORDS + i] for i, name in enumerate(struct.members)}
        for name, needed in _SUBGROUP.items():
            members[name] = int(_has_operations(physical, needed))
        return frozenset(name for name, value in members.items() if value)

    def _keep_only_needed(self) -> None:
        """Switch off core features but number types: bounds checks would slow every kernel."""
        core = self.head.features
        kept = {
            name: getattr(core, name) for name in ("shaderInt64", "shaderFloat64", "shaderInt16")
        }
        vk.ffi.memmove(vk.ffi.addressof(core), bytes(vk.ffi.sizeof(core)), vk.ffi.sizeof(core))
        for name, value in kept.items():
            setattr(core, name, value)


def subgroup_properties(physical: Any) -> Any:
    """VkPhysicalDeviceSubgroupProperties of a device."""
    subgroup = vk.struct("VkPhysicalDeviceSubgroupProperties")
    vk.lib.vkGetPhysicalDeviceProperties2(
        physical, vk.struct("VkPhysicalDeviceProperties2", next=subgroup)
    )
    return subgroup


def _has_operations(physical: Any, needed: int) -> bool:
    subgroup = subgroup_properties(physical)
    operations = subgroup.supportedOperations & needed == needed
    return bool(operations and subgroup.supportedStages & vk.COMPUTE_SHADER)
