"""What is under way at the leader of a shard, besides what its log says. A change of leader forgets it."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from motet.core.machine import NS_PER_MS, Now
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.cluster_messages import TurnClock
from motet.core.streams.entries import Committed, Compacted, Forgotten
from motet.core.streams.messages import (
    AbortTransaction,
    AskOutcome,
    CloseShard,
    CommitTransaction,
    OrderShard,
    PrepareTransaction,
    ResolveTransaction,
)
from motet.core.streams.orders import FeedRules
from motet.core.streams.shard import state_of
from motet.core.streams.transactions import TransactionState
from motet.ids import Address, Epoch, Offset, ShardName, TransactionId
from motet.limits import entry_batch_bytes_max, outcomes_remembered, sparse_index_step_bytes


class TransactionConfig(msgspec.Struct, frozen=True):
    """How leaders behave towards transactions."""

    #: how often everything that is late is looked at
    sweep_ms: int = 100
    #: a prepare that has not been decided for so long asks its home shard, which gives it up
    doubt_ms: int = 3_000
    #: what was not acknowledged for so long is told again
    tell_ms: int = 500
    #: how long the answer to a commit waits for participants to log it
    adjust_ms: int = 1_000
    #: how long somebody waits for a lock, or for a clock to be closed
    wait_ms: int = 5_000
    #: a shard whose last entry is older than this closes when somebody asks
    close_ms: int = 100
    #: of so many transactions a shard remembers what became of them
    outcomes_remembered: int = outcomes_remembered
    #: so much of a log is between two index points at first: what has to be read to find something
    index_step_bytes: int = sparse_index_step_bytes
    #: the latest changes of keys are compacted in entries of so many bytes, give or take the last one
    compaction_bytes: int = entry_batch_bytes_max
    #: what the nodes of the cluster seal votes with, up to 64 bytes
    vote_key: bytes = b""


TransactionRequest = (
    PrepareTransaction
    | CommitTransaction
    | AbortTransaction
    | CloseShard
    | AskOutcome
    | ResolveTransaction
    | Forgotten
    | OrderShard
    | TurnClock
    | Compacted
)
"""What may lead to an entry."""


class PendingRequest(msgspec.Struct):
    """A request that is not done yet."""

    client: Address
    message: TransactionRequest
    since_ns: int
    #: must be applied before it can be answered
    entry: EntryId | None = None
    #: why it is aborted, if it wanted to commit
    died: str | None = None


class InFlight(msgspec.Struct, frozen=True):
    """An entry about transactions that is in the log and not applied."""

    #: the values mean nothing
    keys: dict[bytes, None]
    transaction: TransactionId
    #: its keys will be locked
    is_prepare: bool
    #: how many changes it holds
    changes: int


class Compaction(msgspec.Struct):
    """Latest changes of keys are compacted; see :mod:`motet.core.streams.compaction`."""

    #: entries before this one are to go
    bound: Offset
    #: the first entry of what is being read
    reading: Offset | None = None
    #: read, and not in the log once more
    ready: list[Committed] = msgspec.field(default_factory=list)
    #: an entry with some of them is in the log and not applied
    is_out: bool = False
    #: how many were compacted
    count: int = 0


class ShardTransactions(msgspec.Struct):
    """The requests of one shard."""

    #: the epoch in which this node was elected; all of this belongs to that leadership
    elected_epoch: Epoch = Epoch(0)
    #: not in the log: they wait for a lock, for an entry to be applied, or for a clock
    waiting: list[PendingRequest] = msgspec.field(default_factory=list)
    #: in the log, not applied, in the order of the log
    pending: list[PendingRequest] = msgspec.field(default_factory=list)
    #: decided here, and the participants have not all logged it: those who wait for that
    adjusting: dict[TransactionId, list[PendingRequest]] = msgspec.field(default_factory=dict)
    #: and the entry of each
    in_flight: list[tuple[EntryId, InFlight]] = msgspec.field(default_factory=list)
    #: their transactions and keys, and in how many of them each is
    in_flight_transactions: dict[TransactionId, int] = msgspec.field(default_factory=dict)
    in_flight_keys: dict[bytes, int] = msgspec.field(default_factory=dict)
    #: how many of them are prepares
    in_flight_prepares: int = 0
    #: as home: who has logged which decision, and when we told last
    acknowledged: dict[TransactionId, dict[ShardName, None]] = msgspec.field(default_factory=dict)
    told_ns: dict[TransactionId, int] = msgspec.field(default_factory=dict)
    #: as a participant: since when a prepare is open, or when we asked last
    doubts_ns: dict[TransactionId, int] = msgspec.field(default_factory=dict)
    #: clock visibility is being turned: in the log, not applied
    turning: TurnClock | None = None
    #: the shard is about to be deleted: no more transactions
    is_sealed: bool = False
    compaction: Compaction | None = None
    #: where the files ended that were last looked at for something to compact: up to where the log is pruned,
    #: and all of them
    looked_for: tuple[Offset, Offset] | None = None
    #: how far the log was applied when those that wait were looked at
    looked_at: Offset = Offset(-1)

    def is_of_another(self, replica: ShardReplica) -> bool:
        """Whether another leadership has to be ended first."""
        return self.elected_epoch != replica.elected_epoch and not self.is_idle

    @property
    def is_idle(self) -> bool:
        return not (
            self.waiting or self.pending or self.adjusting or self.in_flight or self.compaction
        )

    @property
    def is_ordered(self) -> bool:
        """Whether an order is in the log and not applied: the next one waits for it."""
        return any(isinstance(pending.message, OrderShard | TurnClock) for pending in self.pending)

    @property
    def is_turned(self) -> bool:
        """Whether somebody is about to turn clock visibility."""
        return self.turning is not None or any(
            isinstance(pending.message, TurnClock) for pending in self.waiting
        )

    def has_clock(self, rules: FeedRules) -> bool:
        """Whether what is put into the log now has a clock for its readers (P3)."""
        return rules.has_clock if self.turning is None else self.turning.is_on

    def is_in_flight(self, transaction: TransactionId) -> bool:
        """Whether an entry about it is in the log and not applied."""
        return transaction in self.in_flight_transactions

    def add_in_flight(self, entry: EntryId, each_in_flight: InFlight) -> None:
        """What will be this entry, or is in it, is on its way."""
        self.in_flight.append((entry, each_in_flight))
        self.in_flight_prepares += each_in_flight.is_prepare
        in_flight_transactions, keys = self.in_flight_transactions, self.in_flight_keys
        in_flight_transactions[each_in_flight.transaction] = (
            in_flight_transactions.get(each_in_flight.transaction, 0) + 1
        )
        for key in each_in_flight.keys:
            keys[key] = keys.get(key, 0) + 1

    def end_in_flight(self, applied: EntryId) -> None:
        """Entries up to this one are applied."""
        count = 0
        landed: EntryId | None = None  # those of a batch share it
        for entry, each_in_flight in self.in_flight:
            if entry is not landed:
                if entry > applied:
                    break
                landed = entry
            count += 1
            self.in_flight_prepares -= each_in_flight.is_prepare
            _count_down(self.in_flight_transactions, each_in_flight.transaction)
            for key in each_in_flight.keys:
                _count_down(self.in_flight_keys, key)
        del self.in_flight[:count]

    def forget_in_flight(self) -> None:
        """What becomes of the entries is nothing to this leadership any more."""
        (
            self.in_flight,
            self.in_flight_transactions,
            self.in_flight_keys,
            self.in_flight_prepares,
        ) = [], {}, {}, 0

    def locks_ahead(self) -> dict[bytes, None]:
        """Keys that will be locked when what is in the log is applied."""
        return {
            key: None
            for _, each_in_flight in self.in_flight
            if each_in_flight.is_prepare
            for key in each_in_flight.keys
        }


class Turn(NamedTuple):
    """One step of the leader of a shard about its requests."""

    ours: ShardTransactions
    replica: ShardReplica
    now: Now
    config: TransactionConfig

    @property
    def state(self) -> TransactionState:
        """What is applied about transactions."""
        return state_of(self.replica)

    def is_late(self, since_ns: int, after_ms: int) -> bool:
        """Whether so long has passed."""
        return self.now.monotonic_ns - since_ns >= after_ms * NS_PER_MS


Counted = TypeVar("Counted", TransactionId, bytes)


def _count_down(counts: dict[Counted, int], what: Counted) -> None:
    left = counts.pop(what) - 1
    if left:
        counts[what] = left
