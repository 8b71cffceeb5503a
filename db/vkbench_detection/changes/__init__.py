"""The state of a change point: what it may become, and the only code that writes it."""
