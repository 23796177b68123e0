"""Entries about transactions that a leader puts into its log together: one entry that holds several.

What comes to a leader in one turn is one write, one message to each follower and one entry to commit. A
bundle says what its entries would have said by themselves, in the same order, each with a clock of its own.

U1  Clocks rise within a bundle, and the last one is that of the entry: whoever knows an entry's clock knows
    that nothing below it follows.
U2  A transaction is in a bundle once, and no two in it change the same key: whatever touches what is on its
    way waits until that is applied.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryKind


class Bundled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What would have been an entry."""

    kind: int
    clock: Clock
    body: bytes


BUNDLED_KINDS = (
    EntryKind.PART_COMMITTED,
    EntryKind.PREPARED,
    EntryKind.ABORTED,
    EntryKind.FORGOTTEN,
)
"""What may be in a bundle: what many clients ask for at the same time, and what follows from it."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Bundled, ...]).decode


def encode_bundle(bundled: Sequence[Bundled]) -> tuple[int, bytes]:
    """The kind and the body of the entry that holds these; one alone is an entry by itself."""
    if len(bundled) == 1:
        return bundled[0].kind, bundled[0].body
    return EntryKind.BUNDLE, _encode(bundled)


def unbundled(entry: Entry) -> Sequence[Entry]:
    """What an entry says, one after the other: all have its place in the log."""
    if entry.kind != EntryKind.BUNDLE:
        return (entry,)
    return [Entry(entry.id, each.kind, each.clock, each.body) for each in _decode(entry.body)]
