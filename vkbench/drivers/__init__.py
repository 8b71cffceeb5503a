"""Drivers of Vulkan devices that a user added, to run kernels through one or another of them."""
