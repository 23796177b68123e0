"""Data nodes with one rule about bundles left out (U1, U2): gathered, applied, read or given up in part."""

from __future__ import annotations

from collections.abc import Sequence

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Event
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams import feed_scan, leader, reads
from motet.core.streams.entries import unbundled
from motet.core.streams.judging import Verdict
from motet.core.streams.leader import Pen
from motet.core.streams.messages import CommitTransaction
from motet.core.streams.pending import ShardTransactions, Work
from motet.core.streams.shard import StreamShard
from motet.verify.storms.planting import Planted, instead
from motet.verify.storms.transactions_taking_turns import TakesTurns


def _first_of(entry: Entry) -> Sequence[Entry]:
    return unbundled(entry)[:1]


class SharesClocks(TakesTurns):
    """What is put into a bundle behind another one has the same clock (U1)."""

    def step(self, event: Event) -> list[Effect]:
        def put(pen: Pen, work: Work, clock: Clock) -> None:
            errand = work.errand
            is_free = isinstance(errand, CommitTransaction) and not errand.participants
            real(pen, work, pen.bundled[-1].clock if pen.bundled and is_free else clock)

        real = Pen.put
        with instead(Pen, "put", put):
            return super().step(event)


class ChangesKeysTwice(TakesTurns):
    """Whoever touches a key waits for what is in the log, and not for what is gathered with it (U2)."""

    def step(self, event: Event) -> list[Effect]:
        def judge(
            ours: ShardTransactions, touched: object, replica: ShardReplica, *others: object
        ) -> Verdict:
            written = [flight for entry, flight in ours.flights if entry <= replica.head]
            kept, ours.flying_keys = ours.flying_keys, {key: 1 for f in written for key in f.keys}
            try:
                return real(ours, touched, replica, *others)  # type: ignore[arg-type]
            finally:
                ours.flying_keys = kept

        real = leader._judge
        with instead(leader, "_judge", judge):
            return super().step(event)


class TakesTransactionsTwice(TakesTurns):
    """A request that comes twice in one turn is put into the bundle twice (U2)."""

    def step(self, event: Event) -> list[Effect]:
        def judge(
            ours: ShardTransactions,
            touched: object,
            replica: ShardReplica,
            shard: object,
            work: Work,
            *others: object,
        ) -> Verdict:
            part = getattr(work.errand, "part", None)
            # all that is known of its own entry in the same bundle is forgotten
            flights = [
                (entry, flight)
                for entry, flight in ours.flights
                if entry <= replica.head or part is None or flight.transaction != part.transaction
            ]
            ahead = ShardTransactions(elected_epoch=ours.elected_epoch, waiting=ours.waiting)
            for entry, flight in flights:
                ahead.take_off(entry, flight)
            ahead.pending, ahead.turning = ours.pending, ours.turning
            ahead.is_sealed = ours.is_sealed
            return real(ahead, touched, replica, shard, work, *others)  # type: ignore[arg-type]

        real = leader._judge
        with instead(leader, "_judge", judge):
            return super().step(event)


def _keys_behind_the_first(ours: ShardTransactions) -> dict[bytes, int]:
    """What is touched by transactions that are in a bundle, and not the first in it."""
    flights = zip(ours.flights, ours.flights[1:], strict=False)
    behind = [flight for (before, _), (entry, flight) in flights if before == entry]
    return {key: 1 for flight in behind for key in flight.keys}


class LandsTheFirst(TakesTurns):
    """A bundle that is applied gives the keys free of its first transaction alone."""

    def step(self, event: Event) -> list[Effect]:
        def land(ours: ShardTransactions, applied: EntryId) -> None:
            kept = _keys_behind_the_first(ours)
            real(ours, applied)
            ours.flying_keys |= kept

        real = ShardTransactions.land
        with instead(ShardTransactions, "land", land):
            return super().step(event)


class FollowsTheFirst(TakesTurns):
    """A follower applies the first of a bundle alone."""

    def step(self, event: Event) -> list[Effect]:
        def apply(shard: StreamShard, entry: Entry) -> None:
            replicas = self.shards.replicas.values()
            leads = any(each.machine is shard and each.core.is_leader for each in replicas)
            if leads or entry.kind != EntryKind.BUNDLE:
                real(shard, entry)
                return
            (first,) = _first_of(entry)
            real(shard, first)
            shard.state.transactions.clock = entry.clock

        real = StreamShard.apply
        with instead(StreamShard, "apply", apply):
            return super().step(event)


class FeedsTheFirst(TakesTurns, Planted):
    """The feed has the first of a bundle alone."""

    planted = (feed_scan, "unbundled", _first_of)


class ReadsTheFirst(TakesTurns):
    """Whoever reads a stream by offsets gets the first of a bundle alone."""

    def step(self, event: Event) -> list[Effect]:
        def take(*given: object) -> bool:
            with instead(reads, "unbundled", _first_of):
                return real(*given)  # type: ignore[arg-type]

        real = reads._take_records
        with instead(reads, "_take_records", take):
            return super().step(event)


def _first_commit(entry: Entry, _key: bytes) -> Entry:
    commits = [each for each in unbundled(entry) if each.kind == EntryKind.PART_COMMITTED]
    return (*commits, entry)[0]


class ShowsAnother(TakesTurns, Planted):
    """The latest change of a key is looked for in the first transaction of its bundle."""

    planted = (reads, "_holder", _first_commit)
