"""Groups confirmed changes of one cause into regressions, which people deal with."""
