"""What operators, leaders and followers of a shard say to each other, under the names of the source text.

Every message names its shard and an epoch. A node's answer carries the epoch that the node has *after* the
request, except a refusal, which carries the request's, so that whoever asked can tell what was refused.
Messages may be lost, repeated, late or overtaken; a receiver checks what it relies on, and refuses or drops
the rest.

``REFERENCE`` is the message reference of the text: who says what to whom.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.shardlog.entry import NO_ENTRY, Entry, EntryId
from motet.ids import Epoch, LogName, NodeId, Offset


class ShardMessage(Message, frozen=True, tag=lambda name: f"shard.{name}"):
    """Above all messages about one shard."""

    shard: LogName
    epoch: Epoch


# What a node reports of a shard


LEADER, FENCED, RECOVERING = "leader", "fenced", "recovering"
"""What a report says of a replica, where it matters."""


class ShardReport(msgspec.Struct, frozen=True, array_like=True):
    """What a node says of a shard that it holds."""

    shard: LogName
    epoch: Epoch
    #: fenced, follower or leader; or recovering, while its files are read
    status: str
    head_index: EntryId
    commit_index: EntryId
    #: leader only: followers that have all that is committed
    caught_up: tuple[NodeId, ...] = ()
    #: how much is here of a snapshot that is being fetched; it rises until all of it is here
    fetched: int = 0
    #: it has everything that it ever acknowledged; one that has lost its disk, or is damaged, has not
    is_whole: bool = True
    #: leader only: followers that lack something and have got nothing new for long, and the state of their
    #: cursors: attached, pending_truncate or needs_snapshot
    stalled: tuple[tuple[NodeId, str], ...] = ()


class Refusal(StrEnum):
    """Why a node did not do what it was told."""

    INVALID_EPOCH = "invalid_epoch"
    """The node knows a higher epoch."""
    NOT_LEADER = "not_leader"
    NOT_FOLLOWER = "not_follower"
    NOT_FENCED = "not_fenced"
    """It leads or follows in this epoch already, or has been restarted since it was fenced in it."""
    NOT_MEMBER = "not_member"
    """It holds nothing of the shard, or nothing that can be relied on: it never did, or its disk was lost."""
    NOT_READY = "not_ready"
    """The log of its election is not committed yet; ask again."""
    GAP = "gap"
    """The entries do not follow the head of the log."""
    RECONFIGURING = "reconfiguring"
    """Another change of the ensemble is under way."""
    NOT_PREPARED = "not_prepared"
    """The change of the ensemble that is to be committed or called off is not under way here."""
    UNSAFE = "unsafe"
    """Without the old node some committed entries would be on too few nodes; ask again."""
    CLOCK_DRIFT = "clock_drift"
    """A clock in it is too far ahead of the time that the node goes by."""
    DISK_FULL = "disk_full"
    SNAPSHOT_GONE = "snapshot_gone"


class Refused(ShardMessage, frozen=True):
    """It was not done, and nothing was changed; ``epoch`` is that of the request."""

    why: Refusal
    #: the name of the refused message's type
    request: str
    #: what the node knows
    node_epoch: Epoch
    what: str = ""
    #: of a node that is not a member: another number for each time that it lost its log
    loss: int = 0


# Elections


class FenceRequest(ShardMessage, frozen=True):
    """Operator to node: stop whatever you do for the shard, and say how far your log goes.

    A node that is not a member has forgotten which epochs it has promised to stay away from, or never knew
    any. It takes a fence only if that names its incarnation: a fence that was meant for an earlier life says
    nothing about this one. Members take every fence of a higher epoch.
    """

    #: the life of the node that the operator knew of before it last saw the epoch in the store
    incarnation: int = 0
    #: nobody has led this shard yet: who holds nothing of it becomes a member, durably, with an empty log
    founds: bool = False


class FenceResponse(ShardMessage, frozen=True):
    """Node to operator: fenced.

    ``is_member`` is False when it holds nothing of the shard: it never did, or its disk was lost. It stays
    so, through fences and restarts, until an installed snapshot, or its log, reaches a commit index of an
    epoch it was fenced in: it may have acknowledged what it lost, and only then has that back. Answers of
    such nodes do not count towards the majority of an election.
    """

    head_index: EntryId
    #: what it knows to be committed
    commit_index: EntryId
    is_member: bool


class BecomeLeaderRequest(ShardMessage, frozen=True):
    """Operator to the elected node: lead, with these followers, whose heads are known."""

    replication_factor: int
    follower_map: tuple[tuple[NodeId, EntryId], ...]
    #: what it writes is above this
    clock: Clock = ZERO


class BecomeLeaderResponse(ShardMessage, frozen=True):
    """Leader to operator: I lead. Clients are served once the log of the election is committed."""


class AddFollowerRequest(ShardMessage, frozen=True):
    """Operator to leader: this node was fenced late; its head is here."""

    follower: NodeId
    head_index: EntryId


class AddFollowerResponse(ShardMessage, frozen=True):
    """Leader to operator: it has a cursor."""

    follower: NodeId


class TruncateRequest(ShardMessage, frozen=True):
    """Leader to follower: your log ends at ``from_index``, which I do not have; cut it to ``head_index``.

    It is obeyed only while the log ends exactly there. In one epoch an entry that the leader does not have
    never comes back once it was cut: a copy of the request that arrives late changes nothing.
    """

    head_index: EntryId
    from_index: EntryId
    #: the answer to this round alone is waited for
    round: int


class TruncateResponse(ShardMessage, frozen=True):
    """Follower to leader: this is where my log ends now. If you do not have that entry, cut again."""

    head_index: EntryId
    round: int


# Replication


class AddEntryRequest(ShardMessage, frozen=True):
    """Leader to follower: entries after ``previous``, in order. With none it is a heartbeat."""

    previous: EntryId
    entries: tuple[Entry, ...]
    commit_index: EntryId
    #: entries below it are no longer kept by the leader
    first_offset: Offset
    #: counts up: an answer to this round proves that the leader was still obeyed when it was sent
    round: int
    clock: Clock


class AddEntryResponse(ShardMessage, frozen=True):
    """Follower to leader: everything up to ``entry_id`` is durable here; cumulative."""

    entry_id: EntryId
    round: int
    clock: Clock


# Snapshots


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """What can be fetched from a node: its state machine at an entry, and the entries up to there."""

    #: counts up with every snapshot of the node
    number: int
    source: NodeId
    #: the state machine has applied exactly up to this entry
    head_index: EntryId
    #: the first entry that is still kept; one after the head when none is
    first_offset: Offset
    state_bytes: int
    #: the entry before the first that is kept
    base_index: EntryId = NO_ENTRY
    #: of the head
    clock: Clock = ZERO


class SnapshotRequest(ShardMessage, frozen=True):
    """Operator (or a leader whose follower has lost its log) to node: become what this snapshot is.

    A node that is not a member takes it only if it names its incarnation, as operators do, or, from a leader,
    its loss, in the very epoch that it was fenced in: one that was sent before it last lost its log may lack
    what it has acknowledged since.
    """

    snapshot: Snapshot
    commit_index: EntryId
    incarnation: int = 0
    #: of a leader: the loss that is to be repaired
    loss: int = 0
    #: of a leader: the head of a log that ends in an entry it does not have, however far that goes; it is
    #: replaced only while the log ends exactly there
    replaces: EntryId | None = None
    #: of a leader: the answer to this round alone is waited for
    round: int = 0


class SnapshotResponse(ShardMessage, frozen=True):
    """Node to whoever asked: installed; this is where my log ends now."""

    head_index: EntryId
    round: int = 0


class PieceRequest(ShardMessage, frozen=True):
    """New node to the source of a snapshot: the next piece, of the state or of the log."""

    number: int
    #: how much of the state is there already; all of it: then entries are wanted
    state_offset: int
    #: entries after this one
    after: Offset


class PieceResponse(ShardMessage, frozen=True):
    """Source to new node: a piece of the state, or entries, in order."""

    number: int
    state_offset: int
    state: bytes
    entries: tuple[Entry, ...]


# Reconfigurations


class ReconfigurationOp(StrEnum):
    """How an ensemble changes."""

    NODE_SWAP = "node_swap"
    EXPAND = "expand"
    CONTRACT = "contract"


class PrepareReconfigurationRequest(ShardMessage, frozen=True):
    """Operator to leader: a change begins; the old node, if there is one, no longer counts."""

    op: ReconfigurationOp
    old_node: NodeId | None
    new_node: NodeId | None


class PrepareReconfigurationResponse(ShardMessage, frozen=True):
    """Leader to operator: prepared. A swap or an expansion gets a snapshot for the new node."""

    op: ReconfigurationOp
    snapshot: Snapshot | None
    head_index: EntryId
    commit_index: EntryId


class CommitReconfigurationRequest(ShardMessage, frozen=True):
    """Operator to leader: change the ensemble now; the new node's log ends at ``head_index``."""

    op: ReconfigurationOp
    replication_factor: int
    old_node: NodeId | None
    new_node: NodeId | None
    head_index: EntryId | None


class CommitReconfigurationResponse(ShardMessage, frozen=True):
    """Leader to operator: it is done."""

    op: ReconfigurationOp
    old_node: NodeId | None
    new_node: NodeId | None


class AbortReconfigurationRequest(ShardMessage, frozen=True):
    """Operator to leader: it is called off; the old node counts again."""


class AbortReconfigurationResponse(ShardMessage, frozen=True):
    """Leader to operator: as it was before, in the epoch of the request."""


# Leaving


class DeleteShardRequest(ShardMessage, frozen=True):
    """Operator to a node that is not in the ensemble any more: forget the shard.

    A node that deletes its replica would forget what it has promised, too. It remembers, in this life, that
    it takes part in nothing of this epoch or an earlier one: later lives are not named by what was sent
    before.
    """


class DeleteShardResponse(ShardMessage, frozen=True):
    """Node to operator: nothing of it is left."""


REFERENCE: tuple[tuple[type[ShardMessage], str, str], ...] = (
    (FenceRequest, "operator", "node"),
    (FenceResponse, "node", "operator"),
    (BecomeLeaderRequest, "operator", "node (selected leader)"),
    (BecomeLeaderResponse, "node (selected leader)", "operator"),
    (AddFollowerRequest, "operator", "node (selected leader)"),
    (AddFollowerResponse, "node (selected leader)", "operator"),
    (TruncateRequest, "node (leader)", "node (follower)"),
    (TruncateResponse, "node (follower)", "node (leader)"),
    (SnapshotRequest, "operator", "node (new follower in node swap or expand)"),
    (SnapshotResponse, "node", "operator"),
    (AddEntryRequest, "node (leader)", "node (follower)"),
    (AddEntryResponse, "node (follower)", "node (leader)"),
    (PrepareReconfigurationRequest, "operator", "node (leader)"),
    (PrepareReconfigurationResponse, "node (leader)", "operator"),
    (CommitReconfigurationRequest, "operator", "node (leader)"),
    (CommitReconfigurationResponse, "node (leader)", "operator"),
    (AbortReconfigurationRequest, "operator", "node (leader)"),
    (AbortReconfigurationResponse, "node (leader)", "operator"),
    (PieceRequest, "node (new follower)", "node (source of the snapshot)"),
    (PieceResponse, "node (source of the snapshot)", "node (new follower)"),
    (DeleteShardRequest, "operator", "node (no longer in the ensemble)"),
    (DeleteShardResponse, "node", "operator"),
    (Refused, "node", "whoever asked"),
)
"""The message reference of the text, with what it leaves out at the end: who says what to whom."""
