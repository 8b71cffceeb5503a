"""Shaders of Kompute: `vkbench kernel new --pack kompute FOLDER` copies these."""
