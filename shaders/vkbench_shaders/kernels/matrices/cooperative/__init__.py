"""Products by cooperative matrices, which a subgroup multiplies at once."""
