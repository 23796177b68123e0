"""Randomness that a seed decides, split into independent streams by name.

Each part of the world throws its own dice, forked by name from the seed, so that one more message on
the network does not change when the next node crashes. Only ``random()`` and ``getrandbits()`` of the
generator are used: their results are the same on every Python, which is not promised of the rest.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A named stream of the seed's randomness."""

    def __init__(self, seed: int, name: str = "world") -> None:
        self.seed = seed
        self.name = name
        digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
        generator = random.Random(int.from_bytes(digest, "big"))  # noqa: S311 - a seed, not a secret
        #: a float in [0, 1); bound here because it is thrown millions of times
        self.unit = generator.random
        self._bits = generator.getrandbits

    def fork(self, name: str) -> Dice:
        """Another stream of the same seed, independent of how far this one has been thrown."""
        return Dice(self.seed, f"{self.name}.{name}")

    def chance(self, probability: float) -> bool:
        """True with this probability; throws nothing for 0, so switched-off faults cost nothing."""
        return probability > 0 and self.unit() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[int(self.unit() * len(choices))]

    def subset(self, choices: Sequence[T], probability: float = 0.5) -> list[T]:
        """Each of them with this probability, in order."""
        return [choice for choice in choices if self.unit() < probability]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        """All of them in a random order."""
        order = sorted((self.unit(), position) for position in range(len(choices)))
        return [choices[position] for _, position in order]

    def nonce(self) -> int:
        """63 fresh bits, never zero (the entropy port)."""
        return self._bits(63) or 1
