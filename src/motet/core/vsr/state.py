"""Everything a replica keeps in memory, as plain data.

Three numbers say how far a log has come: ``commit_min`` is executed here, ``commit_max`` is known to be
committed somewhere, ``op`` is the head of the log::

    checkpoint.op <= commit_min <= commit_max       commit_min <= op

``op`` may be below ``commit_max`` on a replica that has lost the end of its log. What others say is committed
beyond the log is ``commit_heard``, and is never written down.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.cluster_time import ClusterTime
from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.checkpoint import Building, PageTable
from motet.core.vsr.grid import BlockAllocator
from motet.core.vsr.header import Checksum, Header
from motet.core.vsr.journal import Journal
from motet.core.vsr.messages import DoViewChange, Reply, Request
from motet.core.vsr.restore import Restore
from motet.core.vsr.sessions import Sessions
from motet.core.vsr.superblock import Superblock
from motet.core.vsr.wal_layout import SlotRead
from motet.ids import Address, ClientId, Op, ReadId, ReplicaIndex, View, WriteId


class Status(StrEnum):
    """Where a replica is in its life."""

    #: reading its files
    RECOVERING = "recovering"
    #: its files leave open what the head of its log is: it takes part in nothing until it is told
    RECOVERING_HEAD = "recovering_head"
    NORMAL = "normal"
    VIEW_CHANGE = "view_change"
    #: its files are not to be used; ``refusal`` says why
    REFUSED = "refused"


class InFlight(msgspec.Struct):
    """A prepare of the primary that is not committed yet."""

    header: Header
    #: who has it on disk, the primary included
    oks: dict[ReplicaIndex, None] = {}
    sent_monotonic_ns: int = 0
    #: who brought the request, if it was a backup: the reply goes that way too
    through: ReplicaIndex | None = None


class Queued(msgspec.Struct, frozen=True):
    """A request that waits for a place in the pipeline."""

    request: Request
    body_checksum: Checksum
    through: ReplicaIndex | None


class WaitingRead(msgspec.Struct, frozen=True):
    """Somebody who asked how new a state must be to be read."""

    asker: Address
    request: int
    #: what to answer, once enough replicas have confirmed this round or a later one
    op: Op
    round: int


class PendingRead(msgspec.Struct, frozen=True):
    """Why something is being read from the disk."""

    why: str
    op: Op = Op(0)
    checksum: Checksum = b""
    ref: BlockRef | None = None
    #: several blocks, in the order of their places
    refs: tuple[BlockRef, ...] = ()
    client: ClientId = ClientId(0)
    #: who asked for it; None for ourselves
    asker: ReplicaIndex | None = None


class Checkpointing(msgspec.Struct):
    """A checkpoint on its way to the disk."""

    building: Building
    header: Header
    #: blocks and replies that have to be durable before the superblock may name them
    writes: dict[WriteId, None]
    #: so many of its blocks are written, or on their way
    written: int = 0
    #: the disk was full: all of it is to be written again
    has_failed: bool = False


class State(msgspec.Struct):
    """All there is to a replica but its state machine."""

    own: ReplicaIndex
    status: Status = Status.RECOVERING
    refusal: str = ""
    nonce: int = 0
    #: its files are read, and it takes part
    is_started: bool = False
    view: View = View(0)
    #: the newest view whose log this is
    log_view: View = View(0)
    op: Op = Op(0)
    commit_min: Op = Op(0)
    commit_max: Op = Op(0)
    #: what peers say is committed in this view: beyond the log it only says that this replica lags
    commit_heard: Op = Op(0)
    journal: Journal = msgspec.field(default_factory=lambda: Journal.empty(1))
    #: the highest op whose header is certain to belong to the log: the head, but on a replica that lags
    #: too far behind to hold the head yet
    anchor_op: Op | None = None
    #: the headers from here to the anchor are one chain
    connected_op: Op = Op(0)
    #: as it is on disk for certain
    superblock: Superblock | None = None
    #: on its way to the disk, and the writes that are still missing, in two halves
    superblock_next: Superblock | None = None
    superblock_writes: dict[WriteId, None] = {}
    superblock_half: int = 0
    #: the disk was full: all copies are to be written again
    superblock_has_failed: bool = False
    superblock_due: bool = False
    time: ClusterTime | None = None

    # A primary
    pipeline: dict[Op, InFlight] = {}
    queue: list[Queued] = []
    #: when each replica was last heard, whatever it said
    heard_monotonic_ns: dict[ReplicaIndex, int] = {}
    #: when the last prepare_ok came in, or the pipeline was empty
    heard_ok_monotonic_ns: int = 0
    timestamp: int = 0
    #: backups that did not acknowledge in time: the chain goes round them
    suspects: dict[ReplicaIndex, None] = {}
    #: the highest op that each backup has acknowledged in this view
    acknowledged: dict[ReplicaIndex, Op] = {}
    #: primary of a new view: what is left to do before it leads
    leading: bool = False
    #: the head of the log when the view began: it may all have been committed by a primary before
    view_start_op: Op = Op(0)
    #: the newest round of asking whether this is still the view
    round: int = 0
    confirmed: dict[ReplicaIndex, int] = {}
    #: what the last heartbeat said is committed
    commit_told: Op = Op(0)
    #: backups that await what is committed next -> what they were told at once
    awaiting: dict[ReplicaIndex, Op] = {}
    #: the next heartbeat comes late, since nothing is under way
    is_heartbeat_idle: bool = False
    reads_waiting: list[WaitingRead] = []

    # Changing views
    #: who would rather leave this view -> when that was last heard
    votes: dict[ReplicaIndex, int] = {}
    do_view_changes: dict[ReplicaIndex, DoViewChange] = {}
    #: a start_view that does not fit yet: the log is repaired up to a checkpoint first
    catching_up: bool = False
    #: when commit_min last moved, or a block of a state to be restored came in
    moved_monotonic_ns: int = 0
    #: when a replica that is stuck last asked
    asked_monotonic_ns: int = 0

    # Executing
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    replies: dict[ClientId, Reply] = {}
    replies_faulty: dict[ClientId, Checksum] = {}
    addresses: dict[ClientId, Address] = {}
    table: PageTable = msgspec.field(default_factory=PageTable)
    allocator: BlockAllocator = msgspec.field(default_factory=BlockAllocator)
    checkpointing: Checkpointing | None = None
    restore: Restore | None = None
    blocks_faulty: dict[BlockRef, None] = {}
    #: somebody beside this replica waits for what is executed next: the primary is told so (X3)
    awaits_commits: bool = False
    #: replicas that have another state at a checkpoint: which, and its id there (``divergence``)
    diverged: dict[ReplicaIndex, tuple[Op, Checksum]] = {}

    # The disk
    next_write: WriteId = WriteId(0)
    next_read: ReadId = ReadId(0)
    #: prepares being written -> their slot
    prepare_writes: dict[WriteId, int] = {}
    #: blocks from peers that are being written
    block_writes: dict[WriteId, BlockRef] = {}
    #: redundant headers and replies being written
    other_writes: dict[WriteId, None] = {}
    reads: dict[ReadId, PendingRead] = {}
    #: the log or the superblock could not be written: no more of it until it is tried again
    is_disk_full: bool = False

    # Reading its files
    wal_pieces: dict[int, bytes] = {}
    wal_headers: bytes = b""
    #: what the slots hold, as far as they are read
    wal_reads: list[SlotRead] = []

    # Repair
    #: its timer runs
    is_repair_due: bool = False
    attempts: int = 0
    scrubbed: int = 0
    counts: dict[str, int] = {}
