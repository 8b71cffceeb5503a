"""Whole models: what a GGUF file says of one, its graph of kernels, and its float64 reference."""
