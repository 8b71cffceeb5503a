"""Kernels of optimisers, which update a model's weights in training."""
