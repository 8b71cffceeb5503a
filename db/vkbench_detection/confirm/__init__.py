"""Decides from repeated measurements whether a suspected change is real."""
