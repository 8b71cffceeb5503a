"""The detection on trial in a simulated lab, whose nights the scheduler's own steps judge."""
