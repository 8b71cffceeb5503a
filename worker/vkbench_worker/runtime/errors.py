"""What can go wrong between vkbench and a Vulkan driver."""

from __future__ import annotations

from vkbench.errors import NothingToDo, VkbenchError


class RuntimeFault(VkbenchError):
    """The Vulkan runtime could not do its part."""


class Deviceless(RuntimeFault):
    """This machine has no Vulkan device that can be used."""

    exit_code = NothingToDo.exit_code  # nothing ran


class NoLoader(Deviceless):
    """No Vulkan loader (libvulkan.so.1) on this machine: install one and a driver, for instance
    `apt install libvulkan1 mesa-vulkan-drivers` (Mesa's include a CPU driver)."""


class NoBinding(Deviceless):
    """The Python package `vulkan` is missing: pip install 'vkbench[worker]'."""


class NoDevice(Deviceless):
    """The Vulkan loader finds no device: install a GPU's driver, or a CPU driver with `apt install
    mesa-vulkan-drivers`; `vulkaninfo --summary` (vulkan-tools) shows what the loader sees."""


class NoValidation(RuntimeFault):
    """VKBENCH_VALIDATION is set and VK_LAYER_KHRONOS_validation is not installed:
    apt install vulkan-validationlayers."""


class Unsupported(RuntimeFault):
    """The device lacks what this work needs; the reason of a skipped result."""


class OutOfMemory(Unsupported):
    """The device has not enough memory for this case."""


class DeviceLost(RuntimeFault):
    """The device is lost: the driver gave up on it."""


class Unresponsive(DeviceLost):
    """The device did not finish its work in time."""


class VulkanFailure(RuntimeFault):
    """A Vulkan call failed."""


class ValidationFailure(RuntimeFault):
    """The validation layer objects to how Vulkan was used."""
