"""What the protocols of a replica share: its state, its state machine, and the effects of a step so far.

Each protocol is a module of functions over a ``Core``. They change the state and add effects; what
follows from a change for the other protocols is worked out once, at the end of a step (``replica``).
"""

from __future__ import annotations

from motet.core.machine import (
    CancelTimer,
    Effect,
    Message,
    Note,
    Now,
    Read,
    Send,
    SetTimer,
    Write,
)
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.grid import block_offset
from motet.core.vsr.header import NO_CHECKSUM, Checksum, Header
from motet.core.vsr.state import PendingRead, State, Status
from motet.core.vsr.state_machine import StateMachine
from motet.core.vsr.superblock import Checkpoint
from motet.core.vsr.wal_layout import WalLayout
from motet.ids import Address, FileName, Op, ReadId, ReplicaIndex, TimerName, WriteId

WAL = FileName("wal")
SUPERBLOCK = FileName("superblock")
REPLIES = FileName("replies")
GRID = FileName("grid")


class Core:
    """One replica while it takes a step."""

    def __init__(self, config: VsrConfig, own: ReplicaIndex, machine: StateMachine) -> None:
        self.config = config
        self.own = own
        self._count = config.count
        #: all others, the next one first
        self.ring = tuple(
            ReplicaIndex((own + step) % config.count) for step in range(1, config.count)
        )
        #: which replica is at an address
        self.replica_at = {each: ReplicaIndex(i) for i, each in enumerate(config.replicas)}
        self.quorums = config.quorums
        self.layout = WalLayout.of(config)
        self.machine = machine
        self.state = State(own)
        self.now = Now(0, 0)
        self.effects: list[Effect] = []
        #: the checkpoint whose id was asked for last, and its id: it is in every prepare
        self._identified: tuple[Checkpoint | None, Checksum] = (None, NO_CHECKSUM)

    # Who is who

    @property
    def is_solo(self) -> bool:
        return self._count == 1

    @property
    def primary(self) -> ReplicaIndex:
        """Of this view."""
        return ReplicaIndex(self.state.view % self._count)

    @property
    def is_primary(self) -> bool:
        """Leads, for all it knows."""
        state = self.state
        return state.status is Status.NORMAL and state.view % self._count == self.own

    @property
    def is_backup(self) -> bool:
        state = self.state
        return state.status is Status.NORMAL and state.view % self._count != self.own

    @property
    def peers(self) -> list[ReplicaIndex]:
        return [ReplicaIndex(n) for n in range(self._count) if n != self.own]

    def next_peer(self) -> ReplicaIndex:
        """Whom to ask next: each in turn, since any of them may lack what is asked for."""
        peers = self.peers
        self.state.attempts += 1
        return peers[self.state.attempts % len(peers)]

    # How far things are

    @property
    def checkpoint_op(self) -> Op:
        superblock = self.state.superblock
        return Op(0) if superblock is None else superblock.checkpoint.op

    @property
    def checkpoint_id(self) -> Checksum:
        superblock = self.state.superblock
        if superblock is None:
            return NO_CHECKSUM
        checkpoint, identity = self._identified
        if checkpoint is not superblock.checkpoint:
            identity = superblock.checkpoint.id
            self._identified = (superblock.checkpoint, identity)
        return identity

    @property
    def op_prepare_max(self) -> Op:
        """The highest op that has a place in the ring before the next checkpoint is durable."""
        return Op(self.checkpoint_op + self.config.ops_beyond_checkpoint)

    @property
    def has_room(self) -> bool:
        """Will the next checkpoint find its blocks, whatever is done until then?

        At worst it is a second copy of all there is, and of all that the operations of the log can bring.
        """
        config, allocator = self.config, self.state.allocator
        blocks_per_op = 2 + 2 * config.body_bytes_max // config.block_bytes
        used = allocator.end - len(allocator.free)
        return 2 * used + config.ops_beyond_checkpoint * blocks_per_op <= config.blocks_max

    @property
    def head(self) -> Header:
        header = self.state.journal.header(self.state.op)
        assert header is not None, "J1"
        return header

    @property
    def is_view_durable(self) -> bool:
        """What has to be on disk before anything may be promised in this view."""
        state = self.state
        superblock = state.superblock
        if superblock is None:
            return False
        return superblock.view == state.view and superblock.log_view == state.log_view

    @property
    def is_syncing(self) -> bool:
        """Its checkpoint is one that it does not have yet."""
        superblock = self.state.superblock
        return superblock is not None and superblock.syncing

    # Effects

    def send(self, to: ReplicaIndex, message: Message) -> None:
        self.effects.append(Send(self.config.replicas[to], message))

    def send_address(self, to: Address, message: Message) -> None:
        self.effects.append(Send(to, message))

    def broadcast(self, message: Message) -> None:
        """To all other replicas."""
        for peer in self.peers:
            self.effects.append(Send(self.config.replicas[peer], message))

    def write(self, file: FileName, offset: int, data: bytes) -> WriteId:
        write = self.state.next_write
        self.state.next_write = WriteId(write + 1)
        self.effects.append(Write(write, file, offset, data))
        return write

    def read(
        self, why: PendingRead, file: FileName, offset: int, size_bytes: int | None = None
    ) -> None:
        read = self.state.next_read
        self.state.next_read = ReadId(read + 1)
        self.state.reads[read] = why
        self.effects.append(Read(read, file, offset, size_bytes))

    def read_block(self, why: PendingRead) -> None:
        assert why.ref is not None
        size_bytes = self.config.block_bytes
        self.read(why, GRID, block_offset(why.ref.index, size_bytes), size_bytes)

    def timer(self, name: TimerName, after_ms: int, *, in_step: bool = False) -> None:
        self.effects.append(SetTimer(name, after_ms, in_step))

    def no_timer(self, name: TimerName) -> None:
        self.effects.append(CancelTimer(name))

    def note(self, what: str, detail: str = "") -> None:
        self.effects.append(Note(f"vsr_{what}", detail))

    def drop(self, why: str) -> int:
        """Count a message that is not acted on; how many of them there were."""
        counts = self.state.counts
        counts[why] = count = counts.get(why, 0) + 1
        return count

    # What is committed

    def hear_commit(self, commit: Op) -> None:
        """A peer says that everything up to here is committed.

        It is believed as far as our own log goes (``believe_commit``). What is beyond that only says that we
        lag: were it written down or voted with, one wrong number would be missed in every log for ever.
        """
        if commit > self.state.commit_heard:
            self.state.commit_heard = commit

    def believe_commit(self) -> None:
        """Take what was heard for committed, as far as it is in our log, and could be in it."""
        state = self.state
        heard = state.commit_heard
        if state.commit_max < heard <= self.op_prepare_max and state.commit_max < state.op:
            state.commit_max = Op(min(heard, state.op))
