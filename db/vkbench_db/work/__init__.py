"""Rows of runs, jobs, results, devices and bundles; the store moves the state of jobs."""
