"""Shaders of ggml's Vulkan backend: `vkbench kernel new --pack ggml-vulkan FOLDER` copies these."""
