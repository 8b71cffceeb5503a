"""Has a time changed? Pure statistics over numbers: no tables, no clock, no I/O.

A result is first screened against its own series (`screen`), a suspicion is settled by pairs of
jobs measured now (`pairs`), and whole series are cut at night (`segments`).
"""
