"""States as bytes, and their fingerprints.

A fingerprint is 64 bits of BLAKE2 over a canonical encoding (sets are sorted), so it is the same in every
process and on every machine. With n states the chance that two of them share one, and one of them is
passed over, is about n² / 2⁶⁵: below one in 10⁷ for a million states. Decoding checks the types: TypeOK.

States that differ only by the names of interchangeable things are one state. A canonical state is the least,
by its encoding, of all renamings that put the values in the order of the model's ``rank``. Values with equal
ranks are tried in every order, so a coarse rank costs time and is never wrong; a rank that depends on names
would be, and ``check_symmetry`` of the tests looks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby, permutations, product
from typing import Any, Generic, TypeVar

import msgspec

from motet.errors import BadInput
from motet.verify.model import Model, Record

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


def canonical_encoder(model: Model[S], encode: Callable[[Any], bytes]) -> Callable[[S], bytes]:
    """A function that encodes the canonical form of a state."""
    values = model.symmetry.fixed(model) if model.symmetry is not None else None
    if values is None:
        raise BadInput(f"{model.name} declares no symmetry", hint="explore it without --symmetry")
    identity = tuple(values)

    def canonical(state: S) -> bytes:
        candidates = [
            encode(state if order == identity else model.renamed(state, order))
            for order in _orders(model, state, identity)
        ]
        return candidates[0] if len(candidates) == 1 else min(candidates)

    return canonical


def _orders(model: Model[S], state: S, values: Sequence[int]) -> Iterator[tuple[int, ...]]:
    ranks = [model.rank(state, value) for value in values]
    ordered = sorted(values, key=ranks.__getitem__)
    groups = [list(group) for _, group in groupby(ordered, key=ranks.__getitem__)]
    for choice in product(*(permutations(group) for group in groups)):
        yield tuple(value for group in choice for value in group)
