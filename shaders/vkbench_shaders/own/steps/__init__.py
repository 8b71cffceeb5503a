"""Variants of a user's kernel that are several dispatches, with scratch between them."""
