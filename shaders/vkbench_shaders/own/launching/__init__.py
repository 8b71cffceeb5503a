"""How a user's kernel is launched: for each size of subgroups, and by a device's limits."""
