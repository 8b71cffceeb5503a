"""Kernels that measure what a device reaches at most."""
