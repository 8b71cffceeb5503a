"""Shaders of uVkCompute: `vkbench kernel new --pack uvkcompute FOLDER` copies these."""
