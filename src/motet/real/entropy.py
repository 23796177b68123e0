"""Randomness from the system."""

from __future__ import annotations

import secrets


class RealEntropy:
    """The entropy port."""

    def nonce(self) -> int:
        return secrets.randbits(63) or 1
