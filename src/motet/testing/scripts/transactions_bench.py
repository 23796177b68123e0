"""The nodes of golden scripts about transactions, and what their client has heard."""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.shardlog.entry import EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.cluster_messages import HeartbeatAnswer
from motet.core.streams.entries import changes_of, hidden, render
from motet.core.streams.messages import (
    DataRefused,
    LatestChangeIs,
    RecordsAppended,
    SeenKey,
    ShardClosed,
    ShardFeed,
    ShardOrdered,
    TransactionEnded,
    TransactionIs,
    TransactionPrepared,
)
from motet.core.streams.pending import TransactionConfig
from motet.core.streams.shard import FIRST, machine_of
from motet.core.streams.votes import Vote, seal_of
from motet.ids import Address, RequestId, ShardId, ShardName, StreamName, TransactionId
from motet.testing.bench_network import InFlight, Line
from motet.testing.scripts.shardlog_bench import OPERATOR, ShardBench

# What the commands of golden scripts about transactions are given, made into what requests hold.


def words(text: str | None) -> list[str]:
    """A list as it is written: ``a,b``."""
    return text.split(",") if text else []


def part_of(
    transaction: str, changes: tuple[str, ...], age: int, first: int, count: int | None
) -> Branch:
    """A part with changes KEY:VALUE, numbered from ``first``; KEY alone is deleted."""
    made = tuple(_change(number, change) for number, change in enumerate(changes, first))
    total = first + len(made) if count is None else count
    return Branch(TransactionId(transaction), Clock(age, 0), Clock(1, 0), total, made)


def _change(number: int, told: str) -> RowChange:
    key, colon, value = told.partition(":")
    if not colon:
        return RowChange(number, key.encode(), "delete", None, None)
    return RowChange(number, key.encode(), "update", value.encode(), None)


def reads_of(text: str | None) -> tuple[SeenKey, ...]:
    """What was read: ``x@(1000,1);y@none``."""
    found = []
    for word in (text or "").split(";"):
        key, at, seen = word.partition("@")
        if at:
            found.append(SeenKey(key.encode(), None if seen == "none" else Clock.parse(seen)))
    return tuple(found)


# Entries and answers about transactions, in the few words of golden scripts.

STREAM = StreamName("stream")


def told_shard(replica: ShardReplica) -> str:
    """What is in the log of a shard, what is open, and how far it is closed."""
    shard, first = machine_of(replica).state, replica.first_offset
    state, rules = shard.transactions, shard.rules
    entries = [entry for entry in replica.core.state.log.tail if entry.kind != EntryKind.BARRIER]
    told = [f"{replica.shard}:", *map(render, entries)]
    if state.locks:
        told.append("locked " + ",".join(key.decode() for key in state.locks))
    if state.decisions:
        told.append("to tell " + ",".join(state.decisions))
    told += [f"cursor {name} {clock}" for name, clock in rules.cursors.items()]
    told += [f"pruned {rules.low_watermark}"] if rules.low_watermark > ZERO else []
    told += [] if rules.has_clock else ["clock off"]
    told += [f"trimmed to entry {first}"] if first > FIRST else []
    return " ".join([*told, f"closed {state.closed}"])


def told_answer(message: Message) -> str:
    """An answer in few words."""
    match message:
        case TransactionPrepared():
            return f"#{message.request} prepared at {message.clock}{hidden(has_clock=message.has_clock)}"
        case TransactionEnded(clock=None):
            return f"#{message.request} aborted"
        case TransactionEnded():
            late = hidden(has_clock=message.has_clock)
            late += "" if message.is_settled else ", not logged everywhere"
            return f"#{message.request} committed at {message.clock}{late}"
        case TransactionIs():
            home = "" if message.home is None else f", home {message.home}"
            at = (
                ""
                if message.clock is None
                else f" at {message.clock}{hidden(has_clock=message.has_clock)}"
            )
            return f"#{message.request} {message.standing}{at}{home}"
        case ShardClosed():
            held = "" if message.held_by is None else f", held by {message.held_by[0]}"
            return f"#{message.request} closed {message.closed}{held}"
        case LatestChangeIs(found=None):
            return f"#{message.request} never changed"
        case LatestChangeIs():
            assert message.found is not None
            found = list(changes_of(STREAM, ShardId(0), ShardName("-"), message.found))
            change = found[message.place]
            at = f"{change.clock}{hidden(has_clock=change.has_clock)}"
            return f"#{message.request} {_told(change.key, change.row)} at {at}"
        case ShardFeed():
            told = [
                f"{change.clock}{hidden(has_clock=change.has_clock)} {change.transaction[:2]}.{change.index}"
                f" {_told(change.key, change.row)}"
                for entry in message.entries
                for change in changes_of(STREAM, ShardId(0), ShardName("-"), entry)
            ]
            return f"#{message.request} {'; '.join(told) or 'nothing'}, through {message.through}"
        case ShardOrdered():
            return f"#{message.request} obeyed"
        case RecordsAppended():
            return f"#{message.request} appended at {message.places[0].clock}"
        case DataRefused():
            return f"#{message.request} {message.code} {message.what}"
    raise AssertionError(f"{type(message).__name__} is no answer to a client")


def _told(key: bytes, row: bytes | None) -> str:
    return f"{key.decode()} deleted" if row is None else f"{key.decode()}={row.decode()}"


CLIENT = Address("client")
CONFIG = TransactionConfig(sweep_ms=100, doubt_ms=300, tell_ms=200, adjust_ms=400, wait_ms=1_000)
PREPARED = Clock(1, 1)
"""A clock of a prepare that is below all of them, for scripts that name none."""
NO_VOTE = Vote(PREPARED, b"")
"""Of who has not voted."""


class TransactionBench(ShardBench):
    """Data nodes; what a client hears is told, and what an operator hears is not."""

    def __init__(self) -> None:
        super().__init__()
        #: of which transaction and participant each prepare was that the client has asked for
        self.prepares: dict[RequestId, tuple[TransactionId, ShardName]] = {}
        #: and the votes that it has heard
        self.votes: dict[tuple[TransactionId, ShardName], Vote] = {}

    def _deliver(self, each: InFlight) -> list[Line]:
        if each.send.to == CLIENT:
            vote = each.send.message
            if isinstance(vote, TransactionPrepared):
                self.votes[self.prepares[vote.request]] = Vote(vote.clock, vote.seal)
            return [Line("note", f"client hears {told_answer(each.send.message)}")]
        if each.send.to == OPERATOR:
            answer = each.send.message
            if not isinstance(answer, HeartbeatAnswer) or not (answer.sealed or answer.missing):
                return []
            told = [f"{s.shard} is sealed, {s.unsettled} open" for s in answer.sealed]
            told += [f"{shard} is missing" for shard in answer.missing]
            return [Line("note", f"{each.sender} says {', '.join(told)}")]
        return super()._deliver(each)

    def vote(
        self,
        branch: Branch,
        participant: ShardName,
        home: ShardName,
        floor: Clock | None,
        claims: Clock | None,
    ) -> Vote:
        """The vote that was heard; with ``claims`` at another clock, with ``floor`` as if given at that."""
        if floor is not None:
            name, asked = branch.transaction, branch.asked
            return Vote(floor, seal_of(CONFIG.vote_key, name, asked, participant, home, floor))
        given = self.votes.get((branch.transaction, participant), NO_VOTE)
        return given if claims is None else Vote(claims, given.seal)
