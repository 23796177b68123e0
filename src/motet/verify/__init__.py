"""Judges of what the system did: models, explorers, and checkers of recorded histories."""
