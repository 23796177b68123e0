"""Entropy: fresh randomness for nonces. Real nodes get the system's, simulated ones the seed's."""

from __future__ import annotations

from typing import Protocol


class Entropy(Protocol):
    """A source of bits nobody can predict, or exactly the seed can."""

    def nonce(self) -> int:
        """63 fresh random bits, never zero."""
