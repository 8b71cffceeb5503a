"""What runs it: the Vulkan runtime, judging, measuring, the runner that owns a device and the
worker that owns the runner.
"""
