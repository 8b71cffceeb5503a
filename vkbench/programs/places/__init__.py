"""Places where the builds of a lab lie by hash, so that each host gets from there what it lacks."""
