"""Everything an operator keeps in memory, as plain data. All of it can be lost: the store has what counts."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import StreamDefinition
from motet.core.metadata.messages import NO_SESSION, Listing
from motet.core.operator.ensembles import Choice, is_lost
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import FenceResponse, PrepareReconfigurationResponse, ShardReport
from motet.core.streams.cluster_messages import OperatorRequest, ShardMap, ShardMetadata, TurnClock
from motet.ids import Address, Epoch, NodeId, RequestId, SessionId, ShardName, StreamName


class Phase(StrEnum):
    """What an operator is doing about a shard."""

    #: its metadata is being read; until then nothing is known for certain
    LOADING = "loading"
    #: its metadata is being written; ``after_write`` comes next
    WRITING = "writing"
    #: somebody else is about to do something, or we have failed: later is looked again
    WAITING = "waiting"
    #: in steady state, as far as we know
    STEADY = "steady"
    #: fence requests are out
    FENCING = "fencing"
    #: a leader is chosen, and has been told
    NOTIFY_LEADER = "notify_leader"
    #: the leader is to prepare a reconfiguration
    PREPARE = "prepare"
    #: the new node is to install the leader's snapshot
    SNAPSHOT = "snapshot"
    #: the leader is to commit the reconfiguration
    COMMIT = "commit"
    #: the leader is to forget the reconfiguration
    ABORT = "abort"
    #: all nodes are to delete the shard
    DELETING = "deleting"
    #: its metadata is being deleted
    FORGETTING = "forgetting"


RECONFIGURING = (Phase.PREPARE, Phase.SNAPSHOT, Phase.COMMIT, Phase.ABORT)


class Retry(msgspec.Struct):
    """Something that is sent until it is answered, less and less often."""

    next_ns: int
    attempts: int = 0


class Join(msgspec.Struct):
    """A node of the ensemble that the leader may not know of: it is fenced, then added."""

    retry: Retry
    #: where its log ends, once it is fenced
    head_index: EntryId | None = None
    #: the leader has a cursor for it; until it says itself that it follows, this may have to be done again
    is_added: bool = False


class ShardControl(msgspec.Struct):
    """What is known and under way of one shard. ``metadata`` is what the store had when last seen."""

    shard: ShardName
    stream: StreamName
    phase: Phase = Phase.LOADING
    metadata: ShardMetadata | None = None
    #: of the metadata in the store; None: it is not there
    version: int | None = None
    #: on its way to the store, and what comes after it
    writing: ShardMetadata | None = None
    after_write: Phase = Phase.STEADY
    #: the request to the store that the phase waits for
    call: RequestId | None = None
    #: somebody asked the store whether the epoch is still ours
    is_confirming: bool = False
    #: another operator may have written it unnoticed: when it is read once more (W5)
    look_again_ns: int | None = None
    #: the highest epoch that a node has told of
    node_epoch: Epoch = Epoch(0)
    #: lives of nodes that were known before the metadata was last seen; fences name no others
    incarnations: dict[NodeId, int] = {}

    #: a shard without an entry begins above all clocks that nodes knew of in this heartbeat or a later one
    creation_round: int = 0
    #: founded by this operator in its present life, so it was new then
    is_founded: bool = False
    #: when it came to be known here
    since_ns: int = 0

    # An election
    answers: dict[NodeId, FenceResponse] = {}
    choice: Choice | None = None
    #: wins among equals
    preferred: NodeId | None = None
    #: is left out, if the others are a majority by themselves
    avoided: NodeId | None = None
    #: until then the others are waited for, although a majority has answered
    grace_ns: int | None = None
    #: elections without a leader, one after the other
    failures: int = 0
    #: nodes that have answered since there was a leader, and have lost what they acknowledged
    wiped: dict[NodeId, None] = {}

    # A reconfiguration
    prepared: PrepareReconfigurationResponse | None = None
    #: it was begun by the operator itself
    is_move: bool = False
    #: until then a commit that is refused as unsafe is asked for again
    unsafe_ns: int = 0

    # Time
    retry: Retry = msgspec.field(default_factory=lambda: Retry(0))
    #: when the phase is given up
    until_ns: int = 0
    #: how much of its snapshot the new node has said to have
    fetched: int = 0
    #: what somebody else is doing, and has been left to: the version it stood at
    left_alone: int | None = None

    # Steady state
    joins: dict[NodeId, Join] = {}
    deletions: dict[NodeId, Retry] = {}
    #: transactions that its deletion waits for
    unsettled: int = 0
    #: the version of clock visibility's setting that its log has
    visibility_version: int = -1
    #: followers that do not get on, as the leader says
    stalled: dict[NodeId, str] = {}
    steady_epoch: Epoch = Epoch(0)
    #: reports of this heartbeat or earlier ones say nothing about the present epoch
    steady_round: int = 0
    #: elections that were to move the leadership away from a node, one after the other
    handovers: int = 0
    #: no further move before that
    move_ns: int = 0

    @property
    def known(self) -> ShardMetadata:
        assert self.metadata is not None
        return self.metadata

    @property
    def epoch(self) -> Epoch:
        return Epoch(0) if self.metadata is None else self.metadata.epoch

    @property
    def is_lost(self) -> bool:
        """Too many of its nodes have lost their data for it ever to have a leader (N5)."""
        known = self.metadata
        return known is not None and known.leader is None and is_lost(known, list(self.wiped))


class NodeEntry(msgspec.Struct, frozen=True):
    """What a node says of itself in the store."""

    id: NodeId
    roles: tuple[str, ...]
    native: str
    http: str


class NodeState(msgspec.Struct):
    """What is known of a node."""

    id: NodeId
    #: None: it has no entry in the store any more, or never had one
    entry: NodeEntry | None
    #: when it was last heard of, or first known of
    heard_ns: int
    is_dead: bool = False
    #: has answered a heartbeat of ours
    is_heard: bool = False
    #: the last heartbeat it has answered
    round: int = 0
    incarnation: int = 0
    map_version: int = 0
    #: how far its wall is off, as it says; None: it does not know, or is alone
    drift_ms: int | None = None
    #: when its wall was last too far off; None: it is right, and has been for a while
    drifted_ns: int | None = None
    reports: dict[ShardName, ShardReport] = {}

    @property
    def is_drifting(self) -> bool:
        """Its wall is wrong, or was a moment ago."""
        return self.drifted_ns is not None

    @property
    def is_alive(self) -> bool:
        return self.is_heard and not self.is_dead

    @property
    def has_data(self) -> bool:
        return self.entry is None or "data" in self.entry.roles


class Definition(msgspec.Struct, frozen=True):
    """A stream as it stands in the store."""

    value: StreamDefinition
    version: int


class CallKind(StrEnum):
    """What was asked of the store."""

    READ_CLUSTER = "read_cluster"
    READ_SHARD = "read_shard"
    PUT_SHARD = "put_shard"
    FORGET_SHARD = "forget_shard"
    PUT_STREAM = "put_stream"
    FORGET_STREAM = "forget_stream"
    PUT_DRAIN = "put_drain"
    FORGET_DRAIN = "forget_drain"
    PUT_TERM = "put_term"
    PUT_CLOCK_VISIBILITY = "put_clock_visibility"


class StoreCall(msgspec.Struct, frozen=True):
    """A request to the store that is under way."""

    kind: CallKind
    asked_ns: int
    #: the shard, stream or node that it is about
    about: str = ""
    paths: tuple[str, ...] = ()
    #: lives of nodes as they were known when it was asked
    incarnations: tuple[tuple[NodeId, int], ...] = ()
    definition: StreamDefinition | None = None
    #: the fence that it raises
    fence: int = 0
    #: how far the reading of a cluster has come
    listing: Listing | None = None


class WaitingClient(msgspec.Struct):
    """A client whose request is under way."""

    client: Address
    message: OperatorRequest
    asked_ns: int
    #: the shard is to be steady in this epoch or a later one
    epoch: Epoch = Epoch(0)
    shard: ShardName | None = None
    #: what a reconfiguration was to lead to
    old_node: NodeId | None = None
    new_node: NodeId | None = None
    #: the definition has been written by us, or found
    is_defined: bool = False
    created: bool = False
    #: of clock visibility's setting when it was asked for
    visibility_version: int = -1


class State(msgspec.Struct):
    """All there is to an operator."""

    own: NodeId
    nonce: int = 0
    is_active: bool = False
    #: the store has been read since we are active
    is_loaded: bool = False
    #: who is active, if it is somebody else and known
    #: with the keeper; 0: there is none
    session: SessionId = NO_SESSION
    #: what is to be watched or stood for, and what has been asked of that
    to_enter: dict[str, None] = {}
    entering: dict[RequestId, str] = {}
    #: the timer of ticks runs
    is_ticking: bool = False
    next_request: int = 1
    calls: dict[RequestId, StoreCall] = {}
    #: paths that have changed and are to be read again
    dirty: dict[str, None] = {}
    #: when to read again after the store has failed
    read_again_ns: int = 0

    nodes: dict[NodeId, NodeState] = {}
    definitions: dict[StreamName, Definition] = {}
    #: nodes that are to be emptied, and the version of that note in the store
    drains: dict[NodeId, int] = {}
    shards: dict[ShardName, ShardControl] = {}
    #: when a leadership may be handed on next, if all stays steady
    balance_ns: int = 0
    #: nodes that hold something empty of a shard that nobody knows, and when they have said so
    leftovers: dict[tuple[NodeId, ShardName], int] = {}
    #: paths below the streams whose data is no definition -> the version that was read, and why it is none;
    #: who can tell which shards are its own?
    bad_definitions: dict[str, tuple[int, str]] = {}
    #: entries of nodes that are none -> the zxid that made them: each is named once
    bad_entries: dict[str, int] = {}

    round: int = 0
    #: every clock is known that was handed out before a shard of this round, or an older one, was known
    created_round: int = 0
    #: the highest clock heard of
    clock: Clock = Clock(0, 0)
    #: the highest clock of any entry, as nodes have said
    logged: Clock = Clock(0, 0)
    #: the highest clock that a node has found on its disk too far ahead of the time
    found: Clock = Clock(0, 0)
    #: shards that a node misses, and when it has said so
    missing: dict[tuple[NodeId, ShardName], int] = {}

    #: the how manieth active operator this is; 0: not known yet
    term: int = 0
    #: the highest that was found in the store
    term_seen: int = 0
    #: the highest term of a map that a node says it has
    term_heard: int = 0
    #: the highest version of clock visibility that a shard says it has, beyond what stands in the store
    visibility_heard: int = -1
    term_version: int | None = None
    #: which cluster this is, as the store says; 0: not known
    cluster: int = 0
    #: the setting of clock visibility; None: it was never set
    clock_visibility: TurnClock | None = None
    #: the version of its node in the store; None: it is not there
    visibility_stored: int | None = None
    map: ShardMap | None = None
    map_changed: bool = False
    map_again_ns: int = 0

    waiting: list[WaitingClient] = []
    #: messages that were not acted on, by the reason
    counts: dict[str, int] = {}

    @property
    def fence(self) -> int | None:
        """The version of the term in the keeper; None: it is not known, or not ours (G1)."""
        return self.term_version if self.term and self.term >= self.term_seen else None
