"""Runs exported as text, and imported from it."""
