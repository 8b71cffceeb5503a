"""A case's inputs and reference, and whether a device's output agrees."""
