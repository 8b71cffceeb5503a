"""Vulkan in four nouns: Device, Buffer, Pipeline, Recording; and NullDevice to test without it."""
