"""Kernels of attention, over keys and values in a cache or beside the queries."""
