"""The words that all parts share: settings, names, cases, jobs, results, units, errors. No I/O."""

__version__ = "0.1.0"
