"""The worker: the Vulkan runtime, judging, measuring, and the service around them."""
