"""What the protocols of a replica share: its state, its state machine, and the effects of a step so far.

Each protocol is a module of functions over a ``Core``. They change the state and add effects; what follows
from a change for the others is worked out once, at the end of a step (``replica``). All replicas of a node
write on one ``EffectBuffer``, since writes and reads are numbered over the whole machine.
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import DiskChange, Effect, Message, Note, Now, Read, Send
from motet.core.shardlog.config import ShardlogConfig
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import Refusal, Refused, ShardMessage
from motet.core.shardlog.state import State, Status
from motet.core.shardlog.state_machine import StateMachine
from motet.ids import Address, FileName, NodeId, ReadId, ShardName, WriteId

NS_PER_MS = 1_000_000


class EffectBuffer:
    """Numbers, time and effects of one step of a node."""

    __slots__ = (
        "ceiling_ms",
        "clock",
        "found",
        "items",
        "next_read",
        "next_write",
        "nonce",
        "now",
        "readers",
        "touched",
        "writers",
    )

    def __init__(self) -> None:
        self.next_write = WriteId(1)
        self.next_read = ReadId(1)
        #: who asked for what is under way
        self.writers: dict[WriteId, ShardName] = {}
        self.readers: dict[ReadId, ShardName] = {}
        #: the life of this node: different at every start
        self.nonce = 0
        self.now = Now(0, 0)
        #: the highest clock that was seen anywhere
        self.clock: Clock = ZERO
        #: the highest clock that was found on disk at the start
        self.found: Clock = ZERO
        #: clocks of other nodes beyond this are refused; None: it is not known what is too far ahead
        self.ceiling_ms: int | None = None
        self.items: list[Effect] = []
        #: shards that something has happened to since somebody looked (the values mean nothing)
        self.touched: dict[ShardName, None] = {}

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
        shard: ShardName,
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
