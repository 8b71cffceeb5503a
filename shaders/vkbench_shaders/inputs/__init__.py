"""A case's input arrays, made from its name alone."""
