"""Kernels of users: declared in a file, compiled on their machine, carried to any by a bundle."""
