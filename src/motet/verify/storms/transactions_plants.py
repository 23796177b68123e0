"""Data nodes with one rule about transactions left out, and a reader that tears what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from motet.core.clock import node_clock
from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.machine import Effect, Event, Received, Written
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.messages import BecomeLeaderRequest
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams import appends, decisions, judging, leader, reads
from motet.core.streams.appends import ShardAppends
from motet.core.streams.change import Run, changes_in, runs_of
from motet.core.streams.feed_merge import ShardPage, merge
from motet.core.streams.feed_scan import FeedScan, Known
from motet.core.streams.judging import Verdict
from motet.core.streams.latest import LatestChanges
from motet.core.streams.leader import EntryBuffer
from motet.core.streams.messages import (
    AbortTransaction,
    AskOutcome,
    Forward,
    FoundEntry,
    ReadShardFeed,
    ResolveTransaction,
    ShardClosed,
)
from motet.core.streams.node import DataNode
from motet.core.streams.orders import FeedRules
from motet.core.streams.pending import PendingRequest, ShardTransactions, TransactionConfig, Turn
from motet.core.streams.shard import Opens, StreamShard, machine_of
from motet.core.streams.transactions import TransactionState
from motet.ids import NodeId, RequestId, ShardName, TransactionId
from motet.verify.plants import kind_of
from motet.verify.storms.planting import Planted, instead


class ClosesOverPrepares(DataNode):
    """A shard is closed up to its last entry, whatever is prepared."""

    def step(self, event: Event) -> list[Effect]:
        def closed(state: TransactionState) -> Clock:
            return state.clock

        def take(scan: FeedScan, entries: Sequence[object], known: Known) -> bool:
            done = real(scan, entries, known)  # type: ignore[arg-type]
            scan.closed = scan.up_to
            return done

        real = FeedScan.take
        with (
            instead(TransactionState, "closed", property(closed)),
            instead(FeedScan, "take", take),
        ):
            return super().step(event)


def _gives_up(
    shard: ShardName, transaction: TransactionId, asked: Clock, state: TransactionState
) -> Forward:
    home = state.prepared[transaction].prepared.home
    return Forward(shard, ResolveTransaction(shard, transaction, asked, home, None, 0))


class DecidesAlone(Planted):
    """A participant in doubt aborts by itself, whatever its home shard decides."""

    planted = (decisions, "_doubt", _gives_up)


class ClockTooEarly(DataNode):
    """The clock of a transaction is taken without a look at the other shards."""

    def step(self, event: Event) -> list[Effect]:
        def floor(pending: PendingRequest) -> Clock:
            return real(pending) if isinstance(pending.message, ResolveTransaction) else ZERO

        real = leader.floor_of
        with instead(leader, "floor_of", floor):
            return super().step(event)


class ForgetsDecisions(DataNode):
    """A decision is forgotten as soon as it was told, logged elsewhere or not."""

    def step(self, event: Event) -> list[Effect]:
        def to_forget(turn: Turn) -> PendingRequest | None:
            for name, decision in turn.state.decisions.items():
                turn.ours.acknowledged[name] = dict.fromkeys(decision.participants)
            return real(turn)

        real = decisions.to_forget
        with instead(decisions, "to_forget", to_forget):
            return super().step(event)


class ForgetsLocks(DataNode):
    """A new leader does not know what is locked."""

    def step(self, event: Event) -> list[Effect]:
        led = {shard: each.core.is_leader for shard, each in self.shards.replicas.items()}
        effects = super().step(event)
        for shard, replica in self.shards.replicas.items():
            if replica.core.is_leader and not led.get(shard, False):
                machine_of(replica).state.transactions.locks = {}
        return effects


def _never_held(
    held: ShardAppends, replica: ShardReplica, _locks_ahead: Mapping[bytes, None]
) -> None:
    held.held_at = replica.applied_index.offset


class AppendsOverLocks(Planted):
    """Raw records go into the log whoever has locked their keys."""

    planted = (appends, "hold", _never_held)


class ReadsOverLocks(Planted):
    """A get does not wait for whoever has locked the key."""

    planted = (reads, "is_locked", lambda _reading, _replica: False)


class TrustsReads(DataNode):
    """What a transaction has read is not looked at again."""

    def step(self, event: Event) -> list[Effect]:
        def judge(*given: object) -> Verdict:
            *others, _reads = given
            return real(*others, ())  # type: ignore[arg-type, call-arg]

        real = judging._judge_keys
        with instead(judging, "_judge_keys", judge):
            return super().step(event)


def _decides_late(
    state: TransactionState, ahead: ShardTransactions, message: AbortTransaction | AskOutcome
) -> Verdict:
    if ahead.is_in_flight(message.transaction):
        return Verdict.WAIT
    return Verdict.GO if state.outcome_of(message.transaction) is None else Verdict.KNOWN


class DecidesLate(Planted):
    """What a home shard does not know any more it decides once more."""

    planted = (leader, "judge_abort", _decides_late)


class CreatedInThePast(DataNode):
    """A new shard begins at whatever clock its leader has."""

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, BecomeLeaderRequest):
            message = msgspec.structs.replace(event.message, clock=ZERO)
            event = Received(event.now, event.sender, message)
        return super().step(event)


class ClosesInMemory(DataNode):
    """A leader that is asked how far its shard is closed says what it will not go below, and logs nothing."""

    def step(self, event: Event) -> list[Effect]:
        def judged(*_given: object, **_named: object) -> Verdict:
            return Verdict.KNOWN

        def closed_is(request: RequestId, state: TransactionState, rules: FeedRules) -> ShardClosed:
            answer = real(request, state, rules)
            clock = self.state.clock.tick_above(state.clock, event.now.wall_ms)
            if clock is None or answer.held_by is not None:
                return answer
            return ShardClosed(request, clock, clock)

        def page(scan: FeedScan) -> tuple[tuple[FoundEntry, ...], Clock]:
            scan.closed = scan.up_to = max(scan.up_to, scan.closed)
            return read(scan)

        def of(
            message: ReadShardFeed, closed: Clock, opens: Opens, after: Clock, known: Known
        ) -> FeedScan:
            return begin(message, message.up_to or closed, opens, after, known)

        real, read, begin = decisions.closed_is, FeedScan.page, FeedScan.of
        with (
            instead(leader, "_judge_closing", judged),
            instead(decisions, "closed_is", closed_is),
            instead(FeedScan, "page", page),
            instead(FeedScan, "of", staticmethod(of)),
        ):
            return super().step(event)


class HidesAlone(DataNode):
    """A participant decides by its own clock visibility whether a transaction has a clock for its readers."""

    def step(self, event: Event) -> list[Effect]:
        def entry(buffer: EntryBuffer, pending: PendingRequest, clock: Clock) -> object:
            if isinstance(pending.message, ResolveTransaction):
                has_clock = buffer.ours.has_clock(machine_of(buffer.replica).state.rules)
                pending.message = msgspec.structs.replace(pending.message, has_clock=has_clock)
            return real(buffer, pending, clock)

        real = EntryBuffer._entry
        with instead(EntryBuffer, "_entry", entry):
            return super().step(event)


class PrunesOverCursors(Planted):
    """Named cursors hold nothing."""

    planted = (FeedRules, "_check_pruning", lambda rules, order: order.up_to > rules.low_watermark)


class TrimsWithoutCompaction(Planted):
    """What is pruned goes, whether the latest change of a key lies there or not."""

    planted = (LatestChanges, "entries", lambda _latest, _first: iter(()))


TORN_TIE = "torn-tie"
"""A page ends anywhere, also between changes of one clock."""

NO_BOOKMARK = "bookmark-left-behind"
"""A client goes on in another process, and takes nothing along."""


def merge_tearing(pages: Sequence[ShardPage], limit: int) -> tuple[list[Run], Clock, bool]:
    """A page that is cut where it is full."""
    runs, through, more = merge(pages, 1 << 30)
    changes = changes_in(runs)
    if len(changes) <= limit:
        return runs, through, more
    return runs_of(changes[:limit]), changes[limit - 1].clock, True


def transaction_node(
    plant: str | None, own: NodeId, config: ShardlogConfig, transactions: TransactionConfig
) -> Callable[[], DataNode]:
    """What makes the data node of each incarnation."""
    kind = kind_of("transactions", plant, DataNode)
    return lambda: kind(own, config, transactions)


# Data nodes with one rule about their clock left out.


class ForgetsTheBound(Planted):
    """A restarted clock starts from its wall, as if it had never ticked."""

    planted = (node_clock, "decode_bound", lambda _data: None)


class TrustsAnUnsyncedBound(DataNode):
    """A bound counts as durable as soon as its write has begun."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        write = self.state.clock.write
        if write is not None:
            effects += super().step(Written(event.now, write))
        return effects


# Data nodes that are wrong about prepares long in doubt (T4): who was open, and what became of it.


def _notes_another(shard: StreamShard, name: TransactionId) -> None:
    known = shard.state.long_open
    if name in known:
        others = [each for each, outcome in known.items() if outcome is None and each != name]
        known[(*others, name)[0]] = shard.state.transactions.outcomes[name]


class NotesAnother(Planted):
    """What became of a transaction is noted for another one that is open."""

    planted = (StreamShard, "_note_end", _notes_another)


class ForgetsTheOldest(DataNode):
    """An index point does not know the prepare that is open for the longest time."""

    def step(self, event: Event) -> list[Effect]:
        def opens(state: TransactionState) -> Opens:
            return tuple((name, each.clock) for name, each in state.prepared.items())[1:]

        with instead(TransactionState, "opens", property(opens)):
            return super().step(event)


class ForgetsTheOld(DataNode):
    """An index point knows only prepares that were not open at the one before."""

    def step(self, event: Event) -> list[Effect]:
        def add_index_point(shard: StreamShard, entry: object) -> None:
            state = shard.state
            count, old = len(state.index_opens), dict(state.long_open)
            real(shard, entry)  # type: ignore[arg-type]
            if len(state.index_opens) > count:
                opens = state.index_opens[-1]
                state.index_opens[-1] = tuple(each for each in opens if each[0] not in old)

        real = StreamShard._add_index_point
        with instead(StreamShard, "_add_index_point", add_index_point):
            return super().step(event)


def _open_unless_known(
    scan: FeedScan, transaction: TransactionId, clock: Clock, known: Known
) -> None:
    if known.get(transaction) is None:
        scan.opens[transaction] = plus(clock, -1)
    scan.is_held_known = False


class DoesNotWait(Planted):
    """A prepare that was decided holds no page back, also one that ends before its outcome."""

    planted = (FeedScan, "_open", _open_unless_known)


def _open_up_to_its_clock(
    scan: FeedScan, transaction: TransactionId, clock: Clock, known: Known
) -> None:
    outcome = known.get(transaction)
    if outcome is None:
        scan.opens[transaction] = plus(clock, -1)
    elif outcome.clock is not None:
        scan.opens[transaction] = outcome.clock
    scan.is_held_known = False


class WaitsTooShort(Planted):
    """A page may end at the very clock of a transaction whose outcome it does not reach."""

    planted = (FeedScan, "_open", _open_up_to_its_clock)


# Data nodes that believe what a client says about transactions, be it true or not.


class BelievesVotes(Planted):
    """A home shard takes the votes for what the client says they are."""

    planted = (judging, "_check_votes", lambda _message, _key: None)


class BelievesHomes(Planted):
    """A participant commits or aborts what it has prepared for another shard."""

    planted = (judging, "_check_home", lambda _opened, _message: None)


def _takes_any_outcome(
    state: TransactionState, ahead: ShardTransactions, message: ResolveTransaction
) -> Verdict:
    if ahead.is_in_flight(message.transaction):
        return Verdict.WAIT
    return Verdict.GO if message.transaction in state.prepared else Verdict.KNOWN


class ObeysAnybody(Planted):
    """An outcome is logged, whichever shard has decided it."""

    planted = (leader, "judge_outcome", _takes_any_outcome)


LIAR_PLANTS = ("votes-believed", "home-believed", "outcome-of-a-stranger")
"""They are found by a client that lies: so there is one wherever these are planted."""
