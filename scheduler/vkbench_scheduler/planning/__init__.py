"""Selections become jobs, and jobs become runs."""
