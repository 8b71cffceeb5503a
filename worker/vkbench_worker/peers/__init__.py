"""Peers: other programs that are timed on the same cases, on the same device and in turns."""
