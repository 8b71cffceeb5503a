"""Kernels that take a whole row: norms, softmax, losses, rope."""
