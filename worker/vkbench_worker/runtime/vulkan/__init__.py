"""The Vulkan device: implements the nouns of `runtime/device.py` with a driver."""
