"""Searches for the bundle that changed a result."""
