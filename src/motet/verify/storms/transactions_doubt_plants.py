"""Data nodes that are wrong about prepares long in doubt (T4): who was open, and what became of it."""

from __future__ import annotations

from motet.core.clock.hlc import Clock, plus
from motet.core.machine import Effect, Event
from motet.core.streams.feed_scan import FeedScan, Known
from motet.core.streams.node import DataNode
from motet.core.streams.shard import Opens, StreamShard
from motet.core.streams.transactions import TransactionState
from motet.ids import TransactionId
from motet.verify.storms.planting import Planted, instead


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
