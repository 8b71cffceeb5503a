"""Timings that other programs printed or wrote to files, as results beside ours."""
