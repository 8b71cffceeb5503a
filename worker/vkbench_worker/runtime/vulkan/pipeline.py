"""A compute pipeline and the layouts that it is launched with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from vkbench_shaders.compile.reflection import uniform_buffers
from vkbench_shaders.compile.shared_memory import measure_shared_bytes
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.physical import Physical
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan import subgroups
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.pipeline_cache import PipelineCache, ScratchCache

_SPIRV_MINOR = {1: 3, 2: 5, 3: 6}  # newest SPIR-V 1.x of each Vulkan 1.x


class VulkanPipeline:
    """A program made ready by the driver; `constants` of the device join the program's own."""

    def __init__(
        self,
        logical: Logical,
        cache: PipelineCache | ScratchCache,
        program: Program,
        constants: Sequence[tuple[int, int]] = (),
        *,
        captures: bool = False,
    ) -> None:
        """Make it; one that `captures` is asked for its statistics, and is for nothing else."""
        self._logical, self._cache = logical, cache
        self._flags = vk.CAPTURE_STATISTICS if captures else 0
        self.bindings = program.bindings
        # what kind of buffer is bound at these; the packaged code has no uniform ones
        uniform = uniform_buffers(program.code) if program.claims else ()
        self.kinds = [
            vk.UNIFORM_BUFFER if number in uniform else vk.STORAGE_BUFFER
            for number in program.bindings
        ]
        self._made: list[tuple[str, Any]] = []
        _check_spirv(logical, program.code)
        _check_shared_memory(logical, program, constants)
        try:
            self.set_layout = self._make(
                "DescriptorSetLayout", _set_layout(self.bindings, self.kinds)
            )
            self.layout = self._make("PipelineLayout", _layout(self.set_layout, program.push_bytes))
            self.handle = self._compile(program, constants)
        except BaseException:
            self.close()
            raise
        self._made.append(("Pipeline", self.handle))
        logical.count("Pipeline", 1)
        cache.unsaved = True

    def close(self) -> None:
        while self._made:
            self._logical.destroy(*self._made.pop())

    def _make(self, kind: str, kept: list[Any]) -> Any:
        handle = self._logical.create(kind, kept[0])
        self._made.append((kind, handle))
        return handle

    def _compile(self, program: Program, more: Sequence[tuple[int, int]]) -> Any:
        code = vk.ffi.from_buffer("uint32_t[]", program.code)
        module_info = vk.struct("VkShaderModuleCreateInfo", codeSize=len(program.code), pCode=code)
        module = self._logical.create("ShaderModule", module_info)
        entry = vk.ffi.new("char[]", b"main")
        constants = _constants((*program.constants, *more))
        info = vk.struct("VkComputePipelineCreateInfo", layout=self.layout, flags=self._flags)
        stage = info.stage
        stage.sType = vk.STRUCTURE_TYPES["VkPipelineShaderStageCreateInfo"]
        stage.stage, stage.module, stage.pName = vk.COMPUTE_SHADER, module, entry
        if constants:
            stage.pSpecializationInfo = constants[0]
        physical = self._logical.physical
        if size := subgroups.required_size(physical, program):
            required = vk.struct(
                "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo", requiredSubgroupSize=size
            )
            stage.pNext = vk.ffi.cast("void *", required)
        if subgroups.are_whole(physical, program, size):
            stage.flags = vk.FULL_SUBGROUPS
        if program.checks_bounds and checks_each(physical):
            robust = vk.struct("VkPipelineRobustnessCreateInfoEXT")
            robust.storageBuffers = robust.uniformBuffers = vk.ROBUST_BUFFER_ACCESS
            info.pNext = vk.ffi.cast("void *", robust)
        handle, null = vk.ffi.new("VkPipeline *"), vk.ffi.NULL
        call = vk.lib.vkCreateComputePipelines
        result = call(self._logical.handle, self._cache.handle, 1, info, null, handle)
        self._logical.destroy("ShaderModule", module)
        vk.check(result, "vkCreateComputePipelines")
        return handle[0]


def checks_each(physical: Physical) -> bool:
    """Whether bounds are checked for one pipeline and not for another, as that says."""
    return "pipeline_robustness" in physical.features.members


def _check_spirv(logical: Logical, code: bytes) -> None:
    minor = int.from_bytes(code[4:8], "little") >> 8 & 0xFF
    newest = _SPIRV_MINOR[logical.physical.minor]
    if minor > newest:
        raise Unsupported(
            f"the kernel is SPIR-V 1.{minor}; {logical.facts.name} reads up to 1.{newest}"
        )


def _check_shared_memory(
    logical: Logical, program: Program, more: Sequence[tuple[int, int]]
) -> None:
    most = logical.facts.limits["max_shared_bytes"]
    needed = measure_shared_bytes(program.code, (*program.constants, *more))
    if needed > most:
        raise Unsupported(f"needs {needed} bytes of shared memory; the device's limit is {most}")


def _set_layout(bindings: Sequence[int], kinds: Sequence[int]) -> list[Any]:
    slots = vk.ffi.new("VkDescriptorSetLayoutBinding[]", len(bindings))
    for number, kind, slot in zip(bindings, kinds, slots, strict=True):
        slot.binding, slot.descriptorType = number, kind
        slot.descriptorCount, slot.stageFlags = 1, vk.COMPUTE_SHADER
    return [
        vk.struct("VkDescriptorSetLayoutCreateInfo", bindingCount=len(slots), pBindings=slots),
        slots,
    ]


def _layout(set_layout: Any, push_bytes: int) -> list[Any]:
    sets = vk.ffi.new("VkDescriptorSetLayout[]", [set_layout])
    info = vk.struct("VkPipelineLayoutCreateInfo", setLayoutCount=1, pSetLayouts=sets)
    kept = [info, sets]
    if push_bytes:
        pushed = vk.struct("VkPushConstantRange", stageFlags=vk.COMPUTE_SHADER, size=push_bytes)
        info.pushConstantRangeCount, info.pPushConstantRanges = 1, pushed
        kept.append(pushed)
    return kept


def _constants(constants: Sequence[tuple[int, int]]) -> list[Any]:
    if not constants:
        return []
    entries = vk.ffi.new("VkSpecializationMapEntry[]", len(constants))
    for place, (number, _) in enumerate(constants):
        entries[place].constantID, entries[place].offset, entries[place].size = number, 4 * place, 4
    values = struct.pack(f"<{len(entries)}I", *(value & 0xFFFFFFFF for _, value in constants))
    data = vk.ffi.new("uint8_t[]", values)
    info = vk.struct(
        "VkSpecializationInfo",
        mapEntryCount=len(entries),
        pMapEntries=entries,
        dataSize=len(values),
        pData=data,
    )
    return [info, entries, data]
