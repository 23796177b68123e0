"""What the shard-log model is made of: entries, cursors, nodes, operators, metadata and messages.

An entry id is ``(epoch, offset)``, so ids compare as the text wants it: epoch first. ``(0, 0)`` is no entry.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from motet.verify.model import Record, require

EntryId: TypeAlias = tuple[int, int]
NO_ENTRY: EntryId = (0, 0)

NodeStatus = Literal["not_member", "fenced", "follower", "leader"]
ShardStatus = Literal["none", "steady_state", "election", "reconfiguration"]
CursorStatus = Literal["none", "attached", "pending_truncate", "pending_removal"]
ElectionPhase = Literal["none", "fencing", "notify_leader", "leader_elected"]
Operation = Literal["swap", "expand", "contract"]


class Entry(Record, frozen=True):
    """An entry of a log."""

    id: EntryId
    value: int


class Cursor(Record, frozen=True):
    """A leader's view of one follower."""

    status: CursorStatus = "none"
    last_pushed: EntryId = NO_ENTRY
    last_confirmed: EntryId = NO_ENTRY


NO_CURSOR = Cursor()


class Node(Record, frozen=True):
    """A data node: its log is kept in the order of its ids."""

    follow_cursor: tuple[Cursor, ...]
    status: NodeStatus = "not_member"
    epoch: int = 0
    leader: int | None = None
    rep_factor: int = 0
    log: tuple[Entry, ...] = ()
    commit_index: EntryId = NO_ENTRY
    head_index: EntryId = NO_ENTRY
    reconfig_inprog: bool = False


class Reconfiguration(Record, frozen=True):
    """A change of the ensemble under way, as the metadata store has it."""

    phase: Literal["prepare", "commit"]
    op: Operation
    epoch: int
    rep_factor: int
    old_node: int | None = None
    new_node: int | None = None
    new_node_head_index: EntryId = NO_ENTRY


class Metadata(Record, frozen=True):
    """The shard in the metadata store; operators alone read and write it."""

    ensemble: frozenset[int]
    rep_factor: int
    shard_status: ShardStatus = "none"
    epoch: int = 0
    leader: int | None = None
    reconfig: Reconfiguration | None = None


class Message(Record, frozen=True, tag=True):
    """Anything that is sent."""


class Fence(Message, frozen=True):
    node: int
    operator: int
    epoch: int


class FenceResponse(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    head_index: EntryId


class BecomeLeader(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    rep_factor: int
    #: by node: its head index, ``None`` for those that are no followers yet
    follower_map: tuple[EntryId | None, ...]


class BecomeLeaderResponse(Message, frozen=True):
    node: int
    operator: int
    epoch: int


class AddFollower(Message, frozen=True):
    node: int
    follower: int
    epoch: int
    head_index: EntryId


class Truncate(Message, frozen=True):
    dest_node: int
    source_node: int
    epoch: int
    head_index: EntryId


class TruncateResponse(Message, frozen=True):
    dest_node: int
    source_node: int
    epoch: int
    head_index: EntryId


class AddEntry(Message, frozen=True):
    dest_node: int
    source_node: int
    epoch: int
    entry: Entry
    commit_index: EntryId


class AddEntryResponse(Message, frozen=True):
    dest_node: int
    source_node: int
    epoch: int
    entry_id: EntryId
    is_ok: bool


class Prepare(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    op: Operation
    old_node: int | None


class PrepareResponse(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    op: Operation
    snapshot: tuple[Entry, ...]
    head_index: EntryId
    commit_index: EntryId


class Snapshot(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    snapshot: tuple[Entry, ...]
    head_index: EntryId
    commit_index: EntryId


class SnapshotResponse(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    head_index: EntryId


class Commit(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    op: Operation
    rep_factor: int
    old_node: int | None
    new_node: int | None
    head_index: EntryId


class CommitResponse(Message, frozen=True):
    node: int
    operator: int
    epoch: int
    op: Operation
    old_node: int | None
    new_node: int | None


AnyMessage: TypeAlias = (
    Fence
    | FenceResponse
    | BecomeLeader
    | BecomeLeaderResponse
    | AddFollower
    | Truncate
    | TruncateResponse
    | AddEntry
    | AddEntryResponse
    | Prepare
    | PrepareResponse
    | Snapshot
    | SnapshotResponse
    | Commit
    | CommitResponse
)

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@lru_cache(maxsize=1 << 16)
def _key(message: Message) -> bytes:
    return _encode(message)


class Bag(Record, frozen=True):
    """The messages: those on their way, and those that have been processed. None is ever sent twice.

    Both are kept in one order, so that equal bags are equal.
    """

    pending: tuple[AnyMessage, ...] = ()
    done: tuple[AnyMessage, ...] = ()

    def send(self, *messages: AnyMessage) -> Bag:
        """Send messages that have not been sent before; else the action is not possible."""
        pending = list(self.pending)
        for message in messages:
            require(message not in self.pending and message not in self.done)
            insort(pending, message, key=_key)
        return Bag(tuple(pending), self.done)

    def processed(self, message: AnyMessage, *answers: AnyMessage) -> Bag:
        """One message is processed, others are sent."""
        return self.lose([message]).send(*answers)

    def lose(self, gone: Sequence[AnyMessage]) -> Bag:
        """Some messages will not arrive any more."""
        pending = tuple(message for message in self.pending if message not in gone)
        return Bag(pending, tuple(sorted((*self.done, *gone), key=_key)))


class Operator(Record, frozen=True):
    """An operator with what it knows in memory; all of it is lost when it stops."""

    is_running: bool = False
    md_version: int = 0
    md: Metadata | None = None
    election_phase: ElectionPhase = "none"
    fencing_ensemble: frozenset[int] = frozenset()
    final_ensemble: frozenset[int] = frozenset()
    election_leader: int | None = None
    fence_responses: tuple[FenceResponse, ...] = ()


class State(Record, frozen=True):
    """The whole shard."""

    metadata: Metadata
    node: tuple[Node, ...]
    operator: tuple[Operator, ...]
    #: by value: ``None`` before it is written, then whether the client was told
    confirmed: tuple[bool | None, ...]
    messages: Bag = Bag()
    metadata_version: int = 0
    operator_stop_ctr: int = 0
