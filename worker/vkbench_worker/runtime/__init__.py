"""Vulkan in four nouns: Device, Buffer, Pipeline, Recording; and NullDevice, which runs the references instead."""
