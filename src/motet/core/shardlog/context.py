"""What the protocols of a replica share: its state, its state machine, and the effects of a step so far.

Each protocol is a module of functions over a ``Core``. They change the state and add effects; what follows
from a change for the others is worked out once, at the end of a step (``replica``). All replicas of a node
write on one ``EffectBuffer``, since writes and reads are numbered over the whole machine.
"""

from __future__ import annotations

from typing import Protocol, Self

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, DiskChange, Effect, Message, Note, Now, Read, Send
from motet.core.shardlog.entry import Entry, EntryId
from motet.core.shardlog.messages import Refusal, Refused, ShardMessage
from motet.core.shardlog.state import State, Status
from motet.ids import Address, FileName, LogName, NodeId, ReadId, WriteId
from motet.limits import (
    shard_in_flight_bytes_max,
    shard_index_step_bytes,
    shard_message_bytes,
    shard_preallocate_bytes,
    shard_read_bytes,
    shard_segment_bytes,
    shard_snapshot_every_bytes,
    shard_snapshots_given_max,
    shard_tail_bytes_max,
    shard_uncommitted_bytes_max,
    shard_uncommitted_entries_max,
)


class StateMachine(Protocol):
    """What a log carries, a function of it: the same entries give the same state on every node.

    ``apply`` gets every entry once, in order, barriers too, when it is committed and durable here. It never
    fails: what a leader lets into the log has been checked before.
    """

    def apply(self, entry: Entry) -> None:
        """Take in the next committed entry."""

    def snapshot(self) -> bytes:
        """All of the state; equal bytes for equal states."""

    def restore(self, data: bytes) -> None:
        """Become what a snapshot says; ``BadRecord`` if it is none."""

    def clone(self) -> Self:
        """An independent copy."""

    def fingerprint(self) -> bytes:
        """Equal exactly for equal states."""


class ShardlogConfig(msgspec.Struct, frozen=True):
    """How the replicas of a node behave; simulations use smaller figures."""

    segment_bytes: int = shard_segment_bytes
    #: a segment grows by this much at a time, ahead of what is written
    preallocate_bytes: int = shard_preallocate_bytes
    #: one mark of the index by offset for so much of a segment
    index_step_bytes: int = shard_index_step_bytes
    #: newest entries that are kept in memory
    tail_bytes_max: int = shard_tail_bytes_max
    #: entries of one message
    message_bytes: int = shard_message_bytes
    #: pushed to one follower and not confirmed
    in_flight_bytes_max: int = shard_in_flight_bytes_max
    #: in the log of a leader and not committed
    uncommitted_bytes_max: int = shard_uncommitted_bytes_max
    uncommitted_entries_max: int = shard_uncommitted_entries_max
    #: read from a file at once
    read_bytes: int = shard_read_bytes
    #: the state is put on disk after so much of the log
    snapshot_every_bytes: int = shard_snapshot_every_bytes
    snapshots_given_max: int = shard_snapshots_given_max
    #: how often a leader lets its followers hear of it, and everything that is late is looked at; 0: never by
    #: itself
    beat_ms: int = 100
    #: and those for whom nothing is late: nothing depends on it but that a follower which is not what its
    #: leader takes it for is found out
    idle_beat_ms: int = 3_000
    #: what was not answered for so long is said again
    resend_ms: int = 400
    #: a follower that lacks something and has got nothing new for so long is reported
    stalled_ms: int = 10_000
    #: a file that cannot be read so often in a row is damaged
    unreadable_max: int = 50
    #: a snapshot that nobody asks for is forgotten
    snapshot_idle_ms: int = 30_000
    #: the log is trimmed to about so much, whatever is pruned; None, as on every node: what is pruned alone
    keep_bytes: int | None = None
    #: an ensemble of one, for good: nobody else ever has an entry of this log, or can repair it (``alone``)
    is_alone: bool = False


class EffectBuffer(msgspec.Struct):
    """Numbers, time and effects of one step of a node."""

    next_write: WriteId = WriteId(1)
    next_read: ReadId = ReadId(1)
    #: who asked for what is under way
    writers: dict[WriteId, LogName] = {}
    readers: dict[ReadId, LogName] = {}
    #: the life of this node: different at every start
    nonce: int = 0
    now: Now = Now(0, 0)
    #: the highest clock that was seen anywhere
    clock: Clock = ZERO
    #: the highest clock that was found on disk at the start
    found: Clock = ZERO
    #: clocks of other nodes beyond this are refused; None: it is not known what is too far ahead
    ceiling_ms: int | None = None
    items: list[Effect] = []
    #: shards that something has happened to since somebody looked (the values mean nothing)
    touched: dict[LogName, None] = {}

    def take(self) -> list[Effect]:
        """What has to be done; the buffer is empty then."""
        items, self.items = self.items, []
        return items

    def new_write(self) -> WriteId:
        write = self.next_write
        self.next_write = WriteId(write + 1)
        return write

    def new_read(self) -> ReadId:
        read = self.next_read
        self.next_read = ReadId(read + 1)
        return read

    def observe_clock(self, clock: Clock) -> None:
        if clock > self.clock:
            self.clock = clock

    def is_ahead(self, clock: Clock) -> bool:
        """Whether another node's clock is too far ahead of the time: it is refused, and not adopted."""
        return self.ceiling_ms is not None and clock.logical > self.ceiling_ms


class Core:
    """One replica while it takes a step."""

    __slots__ = ("config", "effects", "machine", "own", "shard", "state")

    def __init__(
        self,
        shard: LogName,
        own: NodeId,
        config: ShardlogConfig,
        effects: EffectBuffer,
        machine: StateMachine,
    ) -> None:
        self.shard = shard
        self.own = own
        self.config = config
        self.effects = effects
        self.machine = machine
        self.state = State()

    @property
    def now_ns(self) -> int:
        return self.effects.now.monotonic_ns

    def is_over(self, since_ns: int, after_ms: int) -> bool:
        """Whether so much time has passed."""
        return self.effects.now.monotonic_ns - since_ns >= after_ms * NS_PER_MS

    # How things are

    @property
    def is_leader(self) -> bool:
        return self.state.status is Status.LEADER

    @property
    def is_serving(self) -> bool:
        """Leads, and what was in its log when it was elected is committed and applied."""
        state = self.state
        return state.status is Status.LEADER and state.applied >= state.serving_offset

    @property
    def is_epoch_durable(self) -> bool:
        return self.state.epoch_durable == self.state.epoch

    @property
    def loss(self) -> int:
        """Of a replica that is not a member: another number for each time that it lost its log."""
        return 0 if self.state.is_member else max(1, self.effects.nonce + self.state.losses)

    @property
    def head(self) -> EntryId:
        """The head index, as others may rely on it: nothing of a log that is damaged."""
        return self.state.log.head

    # Effects

    def send(self, to: Address | NodeId, message: Message, after: WriteId | None = None) -> None:
        self.effects.items.append(Send(Address(to), message, after))

    def refuse(self, to: Address, message: ShardMessage, why: Refusal, what: str = "") -> None:
        """Say that it was not done."""
        name = type(message).__name__
        self.note("refused", f"{name} of epoch {message.epoch} from {to}: {why.value}")
        loss = self.loss if why is Refusal.NOT_MEMBER else 0
        refused = Refused(self.shard, message.epoch, why, name, self.state.epoch, what, loss)
        self.send(to, refused)

    def change(self, change: DiskChange) -> WriteId:
        """Change a file; the change has a number of its own already."""
        self.effects.writers[change.id] = self.shard
        self.effects.items.append(change)
        return change.id

    def read(self, file: FileName, offset: int = 0, size_bytes: int | None = None) -> ReadId:
        read = self.effects.new_read()
        self.effects.readers[read] = self.shard
        self.effects.items.append(Read(read, file, offset, size_bytes))
        return read

    def note(self, what: str, detail: str = "") -> None:
        text = f"{self.shard} {detail}" if detail else str(self.shard)
        self.effects.items.append(Note(f"shard_{what}", text))

    def drop(self, why: str) -> None:
        """Count a message that is not acted on."""
        counts = self.state.counts
        counts[why] = counts.get(why, 0) + 1
