"""Families of kernels, a module each; the catalogue lists them all."""
