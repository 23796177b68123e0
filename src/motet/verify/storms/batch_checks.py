"""What must hold of a batch as soon as it is in any log: U1 and U2 of :mod:`motet.core.streams.entries`.

Whoever applies a batch asserts some of it. Here it is looked at from outside, before anybody applies it.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.entries import decode_aborted, decode_committed, decode_prepared, unbatched
from motet.ids import TransactionId


def first_clock(entry: Entry) -> Clock:
    """The lowest clock in an entry."""
    return entry.clock if entry.kind != EntryKind.BATCH else unbatched(entry)[0].clock


def broken_rules(entry: Entry) -> list[tuple[str, str]]:
    """Which rules an entry breaks, and how."""
    if entry.kind != EntryKind.BATCH:
        return []
    found: list[tuple[str, str]] = []
    batched = unbatched(entry)
    clocks = [each.clock for each in batched]
    if clocks != sorted({*clocks}) or clocks[-1] != entry.clock:
        found.append(("U1", f"{entry.id} at {entry.clock} has {[str(c) for c in clocks]}"))
    touched: dict[bytes | TransactionId, TransactionId] = {}
    for each in batched:
        name, keys = _touches(each)
        if name is None:
            continue
        touches: list[bytes | TransactionId] = [name, *keys]
        for what in touches:
            if what in touched:
                found.append(("U2", f"{entry.id}: {what!r} of {touched[what]} and of {name}"))
            touched[what] = name
    return found


def _touches(entry: Entry) -> tuple[TransactionId | None, dict[bytes, None]]:
    """The transaction of what is in a batch, and the keys that others must wait for."""
    if entry.kind == EntryKind.BRANCH_COMMITTED:
        branch = decode_committed(entry.body).branch
        return branch.transaction, dict.fromkeys(change.key for change in branch.changes)
    if entry.kind == EntryKind.PREPARED:
        body = decode_prepared(entry.body)
        changed = (change.key for change in body.branch.changes)
        return body.branch.transaction, dict.fromkeys([*body.read_keys, *changed])
    if entry.kind == EntryKind.ABORTED:
        return decode_aborted(entry.body).transaction, {}
    return None, {}
