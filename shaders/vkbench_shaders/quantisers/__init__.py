"""Quantisers: numbers to blocks with the least squared error that a search finds, on the CPU."""
