"""What runs it: the Vulkan runtime, judging, measuring, and the worker around them."""
