"""Transactions in the storm, with requests that come several in a turn, as they do on a real node.

In a simulated world every message comes alone. A leader that hears that another one follows lets requests
wait for it, and puts what it has gathered into its log as one entry. Here two messages out of three are said
to be followed, whatever follows: nothing that a node does may depend on its being true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Event, Received
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams import feed_scan, leader, reads
from motet.core.streams.entries import unbatched
from motet.core.streams.judging import Verdict
from motet.core.streams.leader import EntryBuffer
from motet.core.streams.messages import CommitTransaction
from motet.core.streams.node import DataNode
from motet.core.streams.pending import PendingRequest, ShardTransactions
from motet.core.streams.shard import StreamShard
from motet.ids import NodeId
from motet.sim.world import World
from motet.verify.plants import kind_of, plants_of
from motet.verify.storms.planting import Planted, instead
from motet.verify.storms.transactions import TransactionsRun, TransactionsStorm


class TakesTurns(DataNode):
    """A node that hears of two messages out of three that another one follows."""

    heard = 0

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            self.heard += 1
            if self.heard % 3:
                event = msgspec.structs.replace(event, is_followed=True)
        return super().step(event)


class TurnsRun(TransactionsRun):
    """One cluster of such nodes."""

    def _maker(self, name: NodeId, plant: str | None) -> Callable[[], DataNode]:
        kind = kind_of("transactions-in-turns", plant, TakesTurns)
        return lambda: kind(name, self.config, self.transactions)


class TurnsStorm(TransactionsStorm):
    """``motet simulate transactions-in-turns``."""

    name = "transactions-in-turns"
    plants = plants_of("transactions-in-turns")

    def prepare(self, world: World, plant: str | None) -> TurnsRun:
        return TurnsRun(world, plant)


# Data nodes with one rule about batches left out (U1, U2): gathered, applied, read or given up in part.


def _first_of(entry: Entry) -> Sequence[Entry]:
    return unbatched(entry)[:1]


class SharesClocks(TakesTurns):
    """What is put into a batch after another one has the same clock (U1)."""

    def step(self, event: Event) -> list[Effect]:
        def put(buffer: EntryBuffer, pending: PendingRequest, clock: Clock) -> None:
            message = pending.message
            is_free = isinstance(message, CommitTransaction) and not message.participants
            real(buffer, pending, buffer.batched[-1].clock if buffer.batched and is_free else clock)

        real = EntryBuffer.put
        with instead(EntryBuffer, "put", put):
            return super().step(event)


class ChangesKeysTwice(TakesTurns):
    """Whoever touches a key waits for what is in the log, and not for what is gathered with it (U2)."""

    def step(self, event: Event) -> list[Effect]:
        def judge(
            ours: ShardTransactions, touched: object, replica: ShardReplica, *others: object
        ) -> Verdict:
            written = [
                each_in_flight for entry, each_in_flight in ours.in_flight if entry <= replica.head
            ]
            kept, ours.in_flight_keys = (
                ours.in_flight_keys,
                {key: 1 for f in written for key in f.keys},
            )
            try:
                return real(ours, touched, replica, *others)  # type: ignore[arg-type]
            finally:
                ours.in_flight_keys = kept

        real = leader._judge
        with instead(leader, "_judge", judge):
            return super().step(event)


class TakesTransactionsTwice(TakesTurns):
    """A request that comes twice in one turn is put into the batch twice (U2)."""

    def step(self, event: Event) -> list[Effect]:
        def judge(
            ours: ShardTransactions,
            touched: object,
            replica: ShardReplica,
            shard: object,
            pending: PendingRequest,
            *others: object,
        ) -> Verdict:
            branch = getattr(pending.message, "part", None)
            # all that is known of its own entry in the same batch is forgotten
            in_flight = [
                (entry, each_in_flight)
                for entry, each_in_flight in ours.in_flight
                if entry <= replica.head
                or branch is None
                or each_in_flight.transaction != branch.transaction
            ]
            ahead = ShardTransactions(elected_epoch=ours.elected_epoch, waiting=ours.waiting)
            for entry, each_in_flight in in_flight:
                ahead.add_in_flight(entry, each_in_flight)
            ahead.pending, ahead.turning = ours.pending, ours.turning
            ahead.is_sealed = ours.is_sealed
            return real(ahead, touched, replica, shard, pending, *others)  # type: ignore[arg-type]

        real = leader._judge
        with instead(leader, "_judge", judge):
            return super().step(event)


def _keys_after_the_first(ours: ShardTransactions) -> dict[bytes, int]:
    """What is touched by transactions that are in a batch, and not the first in it."""
    in_flight = zip(ours.in_flight, ours.in_flight[1:], strict=False)
    after = [
        each_in_flight for (before, _), (entry, each_in_flight) in in_flight if before == entry
    ]
    return {key: 1 for each_in_flight in after for key in each_in_flight.keys}


class LandsTheFirst(TakesTurns):
    """A batch that is applied gives the keys free of its first transaction alone."""

    def step(self, event: Event) -> list[Effect]:
        def end_in_flight(ours: ShardTransactions, applied: EntryId) -> None:
            kept = _keys_after_the_first(ours)
            real(ours, applied)
            ours.in_flight_keys |= kept

        real = ShardTransactions.end_in_flight
        with instead(ShardTransactions, "end_in_flight", end_in_flight):
            return super().step(event)


class FollowsTheFirst(TakesTurns):
    """A follower applies the first of a batch alone."""

    def step(self, event: Event) -> list[Effect]:
        def apply(shard: StreamShard, entry: Entry) -> None:
            replicas = self.shards.replicas.values()
            leads = any(each.machine is shard and each.core.is_leader for each in replicas)
            if leads or entry.kind != EntryKind.BATCH:
                real(shard, entry)
                return
            (first,) = _first_of(entry)
            real(shard, first)
            shard.state.transactions.clock = entry.clock

        real = StreamShard.apply
        with instead(StreamShard, "apply", apply):
            return super().step(event)


class FeedsTheFirst(TakesTurns, Planted):
    """The feed has the first of a batch alone."""

    planted = (feed_scan, "unbatched", _first_of)


class ReadsTheFirst(TakesTurns):
    """Whoever reads a stream by offsets gets the first of a batch alone."""

    def step(self, event: Event) -> list[Effect]:
        def take(*given: object) -> bool:
            with instead(reads, "unbatched", _first_of):
                return real(*given)  # type: ignore[arg-type]

        real = reads._take_records
        with instead(reads, "_take_records", take):
            return super().step(event)


def _first_commit(entry: Entry, _key: bytes) -> Entry:
    commits = [each for each in unbatched(entry) if each.kind == EntryKind.BRANCH_COMMITTED]
    return (*commits, entry)[0]


class ShowsAnother(TakesTurns, Planted):
    """The latest change of a key is looked for in the first transaction of its batch."""

    planted = (reads, "_holder", _first_commit)
