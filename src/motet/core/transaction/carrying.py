"""A leader carries the latest changes of keys on, so that files of its log can go which are pruned.

::

    pruned ──▶ worth it? ──▶ read some ──▶ an entry that says it again ──▶ applied ──┐
                   ▲             ▲                                                  │
                   │             └──────── while there is something before the bound ┤
                   └─────────────────────────────── the log is trimmed (H2) ◀────────┘

What is read is a stretch of the log at a time, what is written an entry of bounded size, and the next one
when that is applied: others are served all the while. Nothing of this has to be remembered. Whatever was
carried is in the log, what was not is where it was, and the next leader goes on from there; what two leaders
carry is carried twice, which changes nothing (K1). Nothing is trimmed because this says so: what is applied
tells how far the log can go.
"""

from __future__ import annotations

from itertools import takewhile

from motet.core.datanode import reading
from motet.core.datanode.reading import Readings
from motet.core.datanode.stream_shard import machine_of
from motet.core.machine import Effect, Note, Now
from motet.core.shardlog import retention
from motet.core.shardlog.carry_rules import piece_of, worth_carrying
from motet.core.shardlog.replica import ShardReplica
from motet.core.transaction.carried import Carried, needed, size_bytes
from motet.core.transaction.holding import pruned_before
from motet.core.transaction.latest import LatestChanges
from motet.core.transaction.work import Carrying, ShardTransactions, Work
from motet.ids import Address, Offset


def is_due(ours: ShardTransactions | None, replica: ShardReplica) -> bool:
    """Whether somebody should look for something to carry: something was pruned, or a file has ended."""
    if ours is not None and (ours.carrying is not None or ours.is_sealed):
        return False
    found = _ends(replica)
    if found is None or (ours is not None and ours.looked_for == found):
        return False
    return _oldest(replica) <= found[0]


def begin(ours: ShardTransactions, replica: ShardReplica) -> None:
    """Look how much is worth carrying."""
    found = _ends(replica)
    assert found is not None, "it is due"
    ours.looked_for = found
    machine, first = machine_of(replica), replica.first_offset
    latest = machine.state.latest
    bounds = [Offset(end + 1) for end in retention.closed_ends(replica.core) if end <= found[0]]
    held = list(takewhile(lambda entry: entry <= found[0], latest.entries(first)))
    before = machine.records_before(first)

    def total_before(bound: int) -> int:
        carried = sum(count for at, count in latest.carried.items() if first <= at < bound)
        return machine.records_before(Offset(bound)) - before + carried

    bound = worth_carrying(bounds, held, total_before)
    if bound is not None and held[0] < bound:
        ours.carrying = Carrying(Offset(bound))


def go_on(
    ours: ShardTransactions, replica: ShardReplica, readings: Readings, bytes_max: int, now: Now
) -> list[Effect]:
    """Do what can be done now."""
    effects: list[Effect] = []
    while (carrying := ours.carrying) is not None:
        if carrying.is_out:
            if any(isinstance(work.errand, Carried) for work in (*ours.waiting, *ours.pending)):
                break
            effects.append(_give_up(ours, replica, "the log does not take it"))
        elif carrying.ready:
            _write(ours, carrying, replica, bytes_max, now)
        elif carrying.reading is None:
            effects += _read(ours, carrying, replica, readings)
        elif (done := readings.take_own(replica.shard)) is None:
            break
        elif done.error is not None:
            effects.append(_give_up(ours, replica, done.error[1]))
        else:
            latest = machine_of(replica).state.latest
            entries = [each for each in done.entries if each.id.offset < carrying.bound]
            carrying.ready = needed(latest, replica.shard, entries)
            if not carrying.ready and _oldest(replica) == carrying.reading:
                effects.append(_give_up(ours, replica, f"nothing is in entry {carrying.reading}"))
            carrying.reading = None
    return effects


def _read(
    ours: ShardTransactions, carrying: Carrying, replica: ShardReplica, readings: Readings
) -> list[Effect]:
    """Read where the oldest of what is needed lies; if that is behind the bound, all of it is carried."""
    oldest = _oldest(replica)
    if oldest >= carrying.bound:
        ours.carrying = None
        return [Note("transaction_carried_on", f"{replica.shard} {carrying.count}")]
    carrying.reading = oldest
    return reading.read_own(readings, replica, Offset(oldest - 1))


def _write(
    ours: ShardTransactions, carrying: Carrying, replica: ShardReplica, bytes_max: int, now: Now
) -> None:
    """Have some of what was read put into the log."""
    count = piece_of(map(size_bytes, carrying.ready), bytes_max)
    piece = Carried(tuple(carrying.ready[:count]), replica.first_offset)
    del carrying.ready[:count]
    carrying.count += count
    carrying.is_out = True
    ours.waiting.append(Work(Address(""), piece, now.monotonic_ns))
    ours.looked_at = Offset(-1)


def _give_up(ours: ShardTransactions, replica: ShardReplica, why: str) -> Note:
    """For now: it is looked at again."""
    ours.carrying = ours.looked_for = None
    return Note("transaction_not_carried", f"{replica.shard}: {why}")


def _oldest(replica: ShardReplica) -> Offset:
    """The first entry that holds the latest change of a key, or the one behind all."""
    latest: LatestChanges = machine_of(replica).state.latest
    return next(latest.entries(replica.first_offset), Offset(replica.head.offset + 1))


def _ends(replica: ShardReplica) -> tuple[Offset, Offset] | None:
    """Where the last file ends that pruning lets go, and the last of all; None if none can go."""
    pruned, ends = pruned_before(replica), retention.closed_ends(replica.core)
    gone = [] if pruned is None else [end for end in ends if end < pruned]
    return (gone[-1], ends[-1]) if gone else None
