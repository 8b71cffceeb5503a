"""A device before it is opened: its facts and its environment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import vkbench
from vkbench.device import NVIDIA, SUBGROUP_LIMITS, DeviceFacts, Environment, device_key
from vkbench.process import system
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery import board, host, loaded, matrices
from vkbench_worker.runtime.discovery.features import FeatureChain, subgroup_properties
from vkbench_worker.runtime.discovery.instance import Instance

_TYPES = {1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
_MIB = 1 << 20
_SUBGROUP_PROPERTIES = 1000225000  # VkPhysicalDeviceSubgroupSizeControlProperties
_SM_BUILTINS, _SM_PROPERTIES = "VK_NV_shader_sm_builtins", 1000154001
_SHADER_CORES, _SHADER_CORE_PROPERTIES = "VK_AMD_shader_core_properties", 1000185000
_MEMORY_BUDGET = "VK_EXT_memory_budget"
# Last-level caches that vendors publish; a name that is not here counts as unknown.
_KNOWN_LLC = {
    "H200": 60 * _MIB,
    "H100": 50 * _MIB,
    "A100": 40 * _MIB,
    "L40": 96 * _MIB,
    "RTX 4090": 72 * _MIB,
}


class Physical:
    """One device as a driver offers it."""

    def __init__(self, instance: Instance, handle: Any, index: int) -> None:
        self.instance = instance
        self.handle = handle
        self.index = index
        self.identity = vk.struct("VkPhysicalDeviceIDProperties")
        self.maintenance = vk.struct("VkPhysicalDeviceMaintenance3Properties", next=self.identity)
        self.properties = vk.struct("VkPhysicalDeviceProperties2", next=self.maintenance)
        vk.lib.vkGetPhysicalDeviceProperties2(handle, self.properties)
        self.core = self.properties.properties
        self.minor = min(3, int(self.core.apiVersion) >> 12 & 0x3FF, instance.loader >> 12 & 0x3FF)
        self.memory = vk.ffi.new("VkPhysicalDeviceMemoryProperties *")
        vk.lib.vkGetPhysicalDeviceMemoryProperties(handle, self.memory)

    @cached_property
    def extensions(self) -> frozenset[str]:
        """Names of the device extensions."""
        call = "vkEnumerateDeviceExtensionProperties"
        records = vk.enumerate_all(call, "VkExtensionProperties", self.handle, vk.ffi.NULL)
        return frozenset(vk.text(extension.extensionName) for extension in records)

    @cached_property
    def features(self) -> FeatureChain:
        """What the device can do."""
        return FeatureChain(self.handle, self.minor, self.extensions)

    @property
    def name(self) -> str:
        return vk.text(self.core.deviceName)

    @property
    def uuid(self) -> str:
        return bytes(self.identity.deviceUUID).hex()

    @property
    def type(self) -> str:
        return _TYPES.get(int(self.core.deviceType), "other")

    @cached_property
    def subgroup_size(self) -> int:
        """Threads of a subgroup, as Vulkan reports them and shaders read them."""
        return int(subgroup_properties(self.handle).subgroupSize)

    def subgroup_range(self) -> tuple[int, int, int]:
        """Least and most threads of subgroups that compute pipelines may require, and how many.

        That is how many subgroups a workgroup may have then; all 0 where none may be required.
        """
        if "subgroup_size_control" not in self.features.members:
            return 0, 0, 0
        least, most, subgroups, stages = self.numbers(_SUBGROUP_PROPERTIES, 4)
        return (least, most, subgroups) if stages & vk.COMPUTE_SHADER else (0, 0, 0)

    @cached_property
    def pci_address(self) -> str:
        """Where it sits on the bus, as sysfs writes it; "" where the driver does not say."""
        if "VK_EXT_pci_bus_info" not in self.extensions:
            return ""
        bus = vk.struct("VkPhysicalDevicePCIBusInfoPropertiesEXT")
        vk.lib.vkGetPhysicalDeviceProperties2(
            self.handle, vk.struct("VkPhysicalDeviceProperties2", next=bus)
        )
        return f"{bus.pciDomain:04x}:{bus.pciBus:02x}:{bus.pciDevice:02x}.{bus.pciFunction:x}"

    def heap_bytes(self) -> int:
        """Size of the largest device-local heap."""
        heaps = self.memory.memoryHeaps[0 : self.memory.memoryHeapCount]
        return max((int(heap.size) for heap in heaps if heap.flags & 1), default=0)

    def memory_of_others(self) -> int | None:
        """What the system leaves this process of the largest heap, less than there is."""
        if _MEMORY_BUDGET not in self.extensions:
            return None
        budget = vk.struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        memory = vk.struct("VkPhysicalDeviceMemoryProperties2", next=budget)
        vk.lib.vkGetPhysicalDeviceMemoryProperties2(self.handle, memory)
        heaps = self.memory.memoryHeaps[0 : self.memory.memoryHeapCount]
        sizes = {place: int(heap.size) for place, heap in enumerate(heaps) if heap.flags & 1}
        largest = max(sizes, key=lambda place: sizes[place], default=None)
        return None if largest is None else max(0, sizes[largest] - int(budget.heapBudget[largest]))

    def limits(self) -> dict[str, int]:
        """The limits that decide what fits."""
        limits = self.core.limits
        groups = limits.maxComputeWorkGroupCount
        *sizes, subgroups = self.subgroup_range()
        return {
            "max_workgroup_invocations": limits.maxComputeWorkGroupInvocations,
            "max_workgroup_size_x": limits.maxComputeWorkGroupSize[0],
            "max_workgroup_size_y": limits.maxComputeWorkGroupSize[1],
            "max_workgroup_size_z": limits.maxComputeWorkGroupSize[2],
            "max_shared_bytes": limits.maxComputeSharedMemorySize,
            "max_storage_range": limits.maxStorageBufferRange,
            "max_groups_x": groups[0],
            "max_groups_y": groups[1],
            "max_groups_z": groups[2],
            "max_push_bytes": limits.maxPushConstantsSize,
            "storage_alignment": int(limits.minStorageBufferOffsetAlignment),
            "max_subgroups": subgroups,
            **dict(zip(SUBGROUP_LIMITS, sizes, strict=True)),
        }

    def llc_bytes(self) -> int:
        """Last-level cache: the processor's for CPU drivers, a known GPU's, else 0."""
        if self.type == "cpu":
            return host.cpu_llc_bytes()
        return next((size for part, size in _KNOWN_LLC.items() if part in self.name), 0)

    def compute_units(self) -> int:
        """What works on workgroups side by side; 0 where neither driver nor host says."""
        if self.type == "cpu":
            return system.usable_processors()
        if _SM_BUILTINS in self.extensions:
            return self.numbers(_SM_PROPERTIES, 2)[0]
        if _SHADER_CORES in self.extensions:
            engines, arrays, units, *_ = self.numbers(_SHADER_CORE_PROPERTIES, 14)
            return engines * arrays * units
        return 0

    def numbers(self, kind: int, count: int) -> list[int]:
        """The 32-bit numbers of a properties struct, whose type may be younger than our headers."""
        memory = vk.ffi.new("uint64_t[]", 2 + (count + 1) // 2)
        words = vk.ffi.cast("uint32_t *", memory)
        words[0] = kind
        query = vk.struct("VkPhysicalDeviceProperties2", next=memory)
        vk.lib.vkGetPhysicalDeviceProperties2(self.handle, query)
        return [int(words[4 + place]) for place in range(count)]

    def facts(self, host_name: str, ordinal: int) -> DeviceFacts:
        """Everything that stays with this device."""
        return DeviceFacts(
            key=device_key(host_name, self.uuid, ordinal),
            host=host_name,
            index=self.index,
            name=self.name,
            uuid=self.uuid,
            vendor_id=self.core.vendorID,
            device_id=self.core.deviceID,
            type=self.type,
            memory_bytes=self.heap_bytes(),
            subgroup_size=self.subgroup_size,
            features=self._feature_names(),
            limits=self.limits(),
            llc_bytes=self.llc_bytes(),
            compute_units=self.compute_units(),
        )

    def _feature_names(self) -> tuple[str, ...]:
        names = set(self.features.names())
        if matrices.EXTENSION in self.extensions:
            names |= matrices.kinds(self.instance.function(matrices.CALL), self.handle)
        return tuple(sorted(names))

    def environment(self) -> Environment:
        """All software that a measurement on this device depends on, and its board's settings."""
        name, info, number = self._driver()
        return Environment(
            driver=name or self.name,
            driver_version=self._driver_version(),
            driver_info=info,
            api_version=vk.version(self.core.apiVersion),
            loader=vk.version(self.instance.loader),
            os=host.os_name(),
            os_kernel=host.kernel_release(),
            cpu=system.processor_name(),
            vkbench=vkbench.__version__,
            extra=self._extra(number),
        )

    def _extra(self, driver: int) -> dict[str, str]:
        """Files of the driver by its number, layers, firmware, power cap, BAR: as far as known."""
        extra = {**loaded.describe_driver(driver), "layers": loaded.describe_layers()}
        if self.type != "cpu":
            extra |= board.describe_board(self.core.vendorID, self.uuid, self.pci_address)
        if self.type == "discrete":
            extra["resizable_bar"] = board.describe_bar(self.memory)
        return extra

    def _driver(self) -> tuple[str, str, int]:
        if self.minor < 2 and "VK_KHR_driver_properties" not in self.extensions:
            return "", "", 0
        driver = vk.struct("VkPhysicalDeviceDriverProperties")
        vk.lib.vkGetPhysicalDeviceProperties2(
            self.handle, vk.struct("VkPhysicalDeviceProperties2", next=driver)
        )
        return vk.text(driver.driverName), vk.text(driver.driverInfo), int(driver.driverID)

    def _driver_version(self) -> str:
        number = int(self.core.driverVersion)
        if self.core.vendorID == NVIDIA:  # NVIDIA packs its own way: 10, 8, 8 and 6 bits
            return f"{number >> 22}.{number >> 14 & 0xFF}.{number >> 6 & 0xFF:02d}"
        return vk.version(number)


@dataclass(frozen=True)
class FoundDevice:
    """A physical device with its facts."""

    physical: Physical
    facts: DeviceFacts


def candidates(instance: Instance, host_name: str) -> list[FoundDevice]:
    """Every device of this host, in the loader's order."""
    seen: Counter[str] = Counter()
    devices = []
    for index, handle in enumerate(instance.physical_devices()):
        physical = Physical(instance, handle, index)
        devices.append(FoundDevice(physical, physical.facts(host_name, seen[physical.uuid])))
        seen[physical.uuid] += 1
    return devices
