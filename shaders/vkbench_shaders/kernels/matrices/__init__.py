"""Products of matrices, with quantised or float weights."""
