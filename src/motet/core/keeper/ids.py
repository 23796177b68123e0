"""Names for the keeper's own numbers."""

from __future__ import annotations

from typing import NewType

Generation = NewType("Generation", int)
"""How often a session was attached to a front end; only the latest one speaks for it."""
