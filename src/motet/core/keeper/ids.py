"""Names for the keeper's numbers."""

from __future__ import annotations

from typing import NewType

Zxid = NewType("Zxid", int)
"""A write's place in the one order of all writes, from 1; the writes of one multi share theirs."""

SessionId = NewType("SessionId", int)
"""A client's session, from 1, never used again; as the owner of a node 0 is nobody."""

Generation = NewType("Generation", int)
"""How often a session was attached to a front end; only the latest one speaks for it."""
