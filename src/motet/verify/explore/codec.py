"""States as bytes, and their fingerprints.

A fingerprint is 64 bits of BLAKE2 over a canonical encoding (sets are sorted), so it is the same in every
process and on every machine. With n states the chance that two of them share one, and one of them is
passed over, is about n² / 2⁶⁵: below one in 10⁷ for a million states. Decoding checks the types: TypeOK.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from motet.verify.model import Record

S = TypeVar("S", bound=Record)


class Codec(Generic[S]):
    """Encodes, decodes and fingerprints the states of one type."""

    def __init__(self, state_type: type[Any]) -> None:
        self.encode = msgspec.msgpack.Encoder(order="deterministic").encode
        self._decode = msgspec.msgpack.Decoder(state_type).decode

    def decode(self, data: bytes) -> S:
        """The state again. Raises ``msgspec.ValidationError`` if a variable is not of its type."""
        state: S = self._decode(data)
        return state

    def type_fault(self, data: bytes) -> str | None:
        """What is wrong with the types of an encoded state, if anything is."""
        try:
            self._decode(data)
        except msgspec.ValidationError as error:
            return str(error)
        return None


def fingerprint(data: bytes) -> int:
    """64 bits that stand for a state."""
    return int.from_bytes(blake2b(data, digest_size=8).digest())
