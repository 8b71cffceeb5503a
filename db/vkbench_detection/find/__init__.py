"""Finds suspected changes in series of results."""
