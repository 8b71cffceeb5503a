"""Compares two sets of results."""
