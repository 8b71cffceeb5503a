"""Which configurations are the fastest, from the results of sweeps."""
