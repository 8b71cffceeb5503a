"""Asking and showing: the command line."""
