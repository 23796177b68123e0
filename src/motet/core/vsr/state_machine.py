"""What is replicated: anything that takes entries one by one and can be kept in pages.

A replica gives the machine each committed entry once, in the order of ops, and the machine answers.
At a checkpoint it names the pages that changed, and hands them out one after the other. A replica that
starts, or that has fallen too far behind, makes the machine anew from all of them.

M1  The answer and the state depend on nothing but the entries so far: not on the replica, its clock,
    nor on how often it was made anew from pages in between.
M2  No entry makes it raise. Its body is whatever a client sent.
M3  Equal states have equal pages, to the byte: checkpoints are compared, and repaired, block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Self

import msgspec

from motet.ids import ClientId, Op


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One committed operation."""

    op: Op
    #: nanoseconds of the cluster's time of day, rising strictly from op to op
    timestamp: int
    client: ClientId
    operation: int
    body: bytes


class StateMachine(Protocol):
    """What a replica needs of the state it replicates."""

    def apply(self, entry: Entry) -> bytes:
        """Take the next entry; the body of the reply (M1, M2)."""

    def begin_pages(self) -> Sequence[int]:
        """The numbers of the pages that changed since the last call. Each is taken once before the next."""

    def take_page(self, number: int) -> bytes | None:
        """Such a page as it was then, whatever was applied meanwhile; None for one that is gone (M3)."""

    def restore(self, pages: Iterable[tuple[int, bytes]]) -> None:
        """Become what these pages say; ``BadRecord``, and no change, if they are not such pages."""

    def fingerprint(self) -> bytes:
        """Equal exactly for equal states."""

    def clone(self) -> Self:
        """An independent copy."""
