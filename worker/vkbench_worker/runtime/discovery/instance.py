"""The Vulkan instance: lists the devices, and collects what the validation layer says."""

from __future__ import annotations

from typing import Any

import vkbench
from vkbench.settings import Settings
from vkbench_worker.closing import Closing
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.errors import NoDevice, NoValidation, ValidationFailure

LAYER = "VK_LAYER_KHRONOS_validation"

# With it the loader lists drivers that leave parts of Vulkan out, as MoltenVK's on macOS does.
PORTABILITY = "VK_KHR_portability_enumeration"
_LIST_PORTABLE = 1  # VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR

_HIGHEST_API = 1 << 22 | 3 << 12
# Settings of newer layers that turn synchronisation validation on; without the second one a layer
# does not look at what shaders read and write.
_SETTINGS = ("validate_sync", "syncval_shader_accesses_heuristic")
# What has shaders changed so that they check each access themselves, in newer and older layers.
_ASSISTED_SETTING = "gpuav_enable"
_ASSISTED_FEATURES = (vk.GPU_ASSISTED, vk.GPU_ASSISTED_SLOT)
_KINDS = vk.MessageType.GENERAL | vk.MessageType.VALIDATION | vk.MessageType.PERFORMANCE
_MAX_MESSAGES = 100
_CALLBACK = (
    "VkBool32(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,"
    " VkDebugUtilsMessengerCallbackDataEXT *, void *)"
)


class Instance(Closing):
    """A Vulkan instance, validated when the settings say so."""

    def __init__(self, settings: Settings) -> None:
        self.messages: list[str] = []  # errors of the validation layer since `raise_messages`
        self.loader = self._loader_version()
        self._messenger: Any = None
        self._is_assisted = settings.gpu_assisted
        self._kept: list[Any] = []  # what Vulkan structs point to
        self.handle = self._create(settings.validation)
        if settings.validation:
            self._listen()

    def close(self) -> None:
        """Destroy the instance; closing twice is fine."""
        if self._messenger is not None:
            self.function("vkDestroyDebugUtilsMessengerEXT")(
                self.handle, self._messenger, vk.ffi.NULL
            )
            self._messenger = None
        if self.handle is not None:
            vk.lib.vkDestroyInstance(self.handle, vk.ffi.NULL)
            self.handle = None

    def physical_devices(self) -> list[Any]:
        """Every device of every driver that the loader found, Vulkan 1.1 or later."""
        devices = vk.enumerate_all("vkEnumeratePhysicalDevices", "VkPhysicalDevice", self.handle)
        usable = [device for device in devices if self._minor(device) >= 1]
        if not usable:
            raise NoDevice()
        return usable

    def raise_messages(self) -> None:
        """Raise the first error that the validation layer reported since the last call."""
        messages, self.messages = self.messages, []
        if messages:
            more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
            raise ValidationFailure(f"validation layer: {messages[0]}{more}")

    def function(self, name: str) -> Any:
        """A function of an instance extension, as a C function pointer."""
        pointer = vk.lib.vkGetInstanceProcAddr(self.handle, name.encode())
        return vk.ffi.cast(f"PFN_{name}", pointer)

    @staticmethod
    def _minor(physical: Any) -> int:
        properties = vk.ffi.new("VkPhysicalDeviceProperties *")
        vk.lib.vkGetPhysicalDeviceProperties(physical, properties)
        return int(properties.apiVersion) >> 12 & 0x3FF

    @staticmethod
    def _loader_version() -> int:
        number = vk.ffi.new("uint32_t *")
        vk.check(vk.lib.vkEnumerateInstanceVersion(number), "vkEnumerateInstanceVersion")
        return int(number[0])

    def _create(self, validation: bool) -> Any:
        application = vk.struct(
            "VkApplicationInfo",
            apiVersion=min(self.loader, _HIGHEST_API),
            pApplicationName=self._string("vkbench"),
            pEngineName=self._string(f"vkbench {vkbench.__version__}"),
        )
        info = vk.struct("VkInstanceCreateInfo", pApplicationInfo=application)
        extensions = self._validating(info) if validation else []
        if PORTABILITY in self._extensions():
            info.flags = _LIST_PORTABLE
            extensions = [*extensions, PORTABILITY]
        info.enabledExtensionCount, info.ppEnabledExtensionNames = (
            len(extensions),
            self._strings(extensions),
        )
        handle = vk.ffi.new("VkInstance *")
        vk.check(vk.lib.vkCreateInstance(info, vk.ffi.NULL, handle), "vkCreateInstance")
        return handle[0]

    def _validating(self, info: Any) -> list[str]:
        """The extensions that validation needs; the layer, and what it is asked for, are set."""
        layers = vk.enumerate_all("vkEnumerateInstanceLayerProperties", "VkLayerProperties")
        if LAYER not in {vk.text(layer.layerName) for layer in layers}:
            raise NoValidation()
        takes_settings = "VK_EXT_layer_settings" in self._extensions(LAYER)
        info.pNext = self._settings() if takes_settings else self._features()
        info.enabledLayerCount, info.ppEnabledLayerNames = 1, self._strings([LAYER])
        how = "VK_EXT_layer_settings" if takes_settings else "VK_EXT_validation_features"
        return ["VK_EXT_debug_utils", how]

    def _extensions(self, layer: str = "") -> set[str]:
        """Names of the extensions that a layer brings, or the loader and its drivers."""
        call, name = (
            "vkEnumerateInstanceExtensionProperties",
            self._string(layer) if layer else vk.ffi.NULL,
        )
        records = vk.enumerate_all(call, "VkExtensionProperties", name)
        return {vk.text(extension.extensionName) for extension in records}

    def _settings(self) -> Any:
        """The settings that have a newer layer validate synchronisation."""
        names = (*_SETTINGS, _ASSISTED_SETTING) if self._is_assisted else _SETTINGS
        on = vk.ffi.new("VkBool32[]", [1])
        settings = vk.ffi.new("VkLayerSettingEXT[]", len(names))
        for setting, name in zip(settings, names, strict=True):
            setting.pLayerName, setting.pSettingName = self._string(LAYER), self._string(name)
            setting.type, setting.valueCount, setting.pValues = vk.SETTING_BOOL, 1, on
        info = vk.struct(
            "VkLayerSettingsCreateInfoEXT", settingCount=len(names), pSettings=settings
        )
        self._kept += [on, settings, info]
        return info

    def _features(self) -> Any:
        """The struct that has an older layer, such as Debian 12's, validate synchronisation."""
        numbers = [vk.SYNCHRONISATION, *(_ASSISTED_FEATURES if self._is_assisted else ())]
        enabled = vk.ffi.new("VkValidationFeatureEnableEXT[]", numbers)
        features = vk.struct(
            "VkValidationFeaturesEXT",
            enabledValidationFeatureCount=len(numbers),
            pEnabledValidationFeatures=enabled,
        )
        self._kept += [enabled, features]
        return features

    def _listen(self) -> None:
        callback = vk.ffi.callback(_CALLBACK, self._hear)
        info = vk.struct(
            "VkDebugUtilsMessengerCreateInfoEXT",
            messageSeverity=vk.Severity.ERROR | vk.Severity.WARNING,
            messageType=_KINDS,
            pfnUserCallback=callback,
        )
        self._kept.append(callback)
        messenger = vk.ffi.new("VkDebugUtilsMessengerEXT *")
        create = self.function("vkCreateDebugUtilsMessengerEXT")
        vk.check(
            create(self.handle, info, vk.ffi.NULL, messenger), "vkCreateDebugUtilsMessengerEXT"
        )
        self._messenger = messenger[0]

    def _hear(self, severity: int, kinds: int, data: Any, user: Any) -> int:
        if severity & vk.Severity.ERROR and len(self.messages) < _MAX_MESSAGES:
            self.messages.append(_message(data))
        return 0

    def _string(self, value: str) -> Any:
        characters = vk.ffi.new("char[]", value.encode())
        self._kept.append(characters)
        return characters

    def _strings(self, values: list[str]) -> Any:
        array = vk.ffi.new("char *[]", [self._string(value) for value in values])
        self._kept.append(array)
        return array


def _message(data: Any) -> str:
    """What a layer says, on one line; newer layers leave the broken rule's name out of the text."""
    words = " ".join(vk.text(data.pMessage).split())
    rule = vk.text(data.pMessageIdName) if data.pMessageIdName else ""
    return words if rule in words else f"{rule}: {words}"
