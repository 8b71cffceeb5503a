"""What results mean: what changed, how sure that is, and what is done about it.

Imports go down: steps, then regress, confirm and find, then changes and series, then statistics.
"""
