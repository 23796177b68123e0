"""Motet: a change-data store whose changes are read back in causal order."""

__version__ = "0.1.0"
