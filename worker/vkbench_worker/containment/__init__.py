"""Contains the processes that load a driver: what they may read, write, call and start."""
