"""Shaders of ncnn: `vkbench kernel new --pack ncnn FOLDER` copies these."""
