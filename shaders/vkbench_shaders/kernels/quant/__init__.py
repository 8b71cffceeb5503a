"""Kernels between storage formats and numbers."""
