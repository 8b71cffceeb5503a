"""Kernels that copy, cast, gather and scatter elements."""
