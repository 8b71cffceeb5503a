"""Peers: what other programs and our kernels took in turns, and which ratios fell."""
