"""The operator: elects leaders of shards, fences and reconfigures their ensembles, and places replicas.

Nodes do as they are told; who tells them is here. What the operator decides it writes down first, in the
keeper and by compare-and-set, so that the next operator can go on where this one stopped, and so
that two of them at once cost availability and nothing else.

How to read it, a file per protocol:

====================  ==========================================================================
``ensembles``         who is fenced, who may lead, who leads: the decision, as pure functions
``session``           with the keeper: who is the active operator, what comes of requests
``writing``           a shard's metadata: compare-and-set, unknown outcomes, whose epoch it is
``loading``           going on from what stands in the store
``elections``         the six steps of an election
``followers``         the steady state: late fences, nodes that come back, nodes that have left
``heartbeats``        who lives
``reconfigurations``  swap, expand, contract and abort, in two phases
``streams``           founding what is defined; ``deletion`` is its end
``moves``             away from nodes that are dead for long or are to be emptied
``shard_map``         who gets to know where everything is
``clock_visibility``  whether users get to see clocks, for all leaders to hear
``requests``          what people ask for, changes of ensembles among it
====================  ==========================================================================

A step is one event. Its handler changes the state of some shards; what a shard does in a phase that it has
entered is worked out at the end of the step, and looked at again with every tick. A heartbeat is a tick;
more of them follow while some shard is not at rest.

Invariants, checked after each step: O1 who is not active has no election or reconfiguration under way; O2
the metadata of a shard is legal (LegalLeaderAndEnsemble); O3 what is sent of an epoch is sent when the
store has it: a shard that waits for the store is in a phase that says so; O4 requests that wait are
bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    Now,
    Received,
    Started,
    Violation,
)
from motet.core.metadata.messages import (
    METADATA,
    Changed,
    Deposed,
    Elected,
    MetadataAnswer,
    MetadataMessage,
    SessionBegun,
    SessionEnded,
)
from motet.core.operator import (
    bounds,
    deletion,
    elections,
    followers,
    heartbeats,
    loading,
    moves,
    reconfigurations,
    requests,
    session,
    shard_map,
    streams,
    writing,
)
from motet.core.operator.context import Core, OperatorConfig
from motet.core.operator.elections import fail_election
from motet.core.operator.reconfigurations import on_step_refused
from motet.core.operator.state import RECONFIGURING, Phase, ShardControl
from motet.core.operator.writing import overtaken
from motet.core.shardlog.messages import (
    AbortReconfigurationResponse,
    AddFollowerResponse,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    CommitReconfigurationResponse,
    DeleteShardResponse,
    FenceResponse,
    PrepareReconfigurationResponse,
    Refusal,
    Refused,
    ShardMessage,
    SnapshotResponse,
)
from motet.core.streams.cluster_messages import HeartbeatAnswer, OperatorRequest, ShardMetadata
from motet.ids import Address, NodeId, TimerName

TICK = TimerName("tick")

Act = Callable[[Core, ShardControl], None]
Handler = Callable[[Core, ShardControl, NodeId, Any], None]


def on_refused(core: Core, control: ShardControl, sender: NodeId, message: Refused) -> None:
    """A node knows a higher epoch: so does the store. Else the step is tried again, or given up."""
    core.note_shard("refused", control, f"{sender} {message.request} {message.why.value}")
    if control.phase in (Phase.LOADING, Phase.WRITING, Phase.FORGETTING):
        return
    if message.why is Refusal.INVALID_EPOCH and message.node_epoch > control.epoch:
        overtaken(core, control, sender, message.node_epoch)
    elif control.phase in RECONFIGURING:
        on_step_refused(core, control, sender, message)
    elif _is_leader_to_be(control, sender) and message.request == BecomeLeaderRequest.__name__:
        fail_election(core, control, f"{sender} refuses to lead")


def _is_leader_to_be(control: ShardControl, node: NodeId) -> bool:
    choice = control.choice
    return control.phase is Phase.NOTIFY_LEADER and choice is not None and choice.leader == node


FROM_NODES: dict[type[ShardMessage], Handler] = {
    FenceResponse: elections.on_fence_response,
    BecomeLeaderResponse: elections.on_become_leader_response,
    AddFollowerResponse: followers.on_add_follower_response,
    PrepareReconfigurationResponse: reconfigurations.on_prepared,
    SnapshotResponse: reconfigurations.on_snapshot_installed,
    CommitReconfigurationResponse: reconfigurations.on_committed,
    AbortReconfigurationResponse: reconfigurations.on_aborted,
    DeleteShardResponse: followers.on_delete_shard_response,
    Refused: on_refused,
}
"""What nodes answer, in the epoch that the store has."""

BEGIN: dict[Phase, Act] = {
    Phase.LOADING: writing.keep_loading,
    Phase.FENCING: elections.begin_fencing,
    Phase.NOTIFY_LEADER: elections.begin_notifying,
    Phase.STEADY: followers.begin_steady,
    **dict.fromkeys(reconfigurations.KEEP, reconfigurations.begin_step),
    Phase.DELETING: deletion.begin_deleting,
}

KEEP: dict[Phase, Act] = {
    Phase.LOADING: writing.keep_loading,
    Phase.WAITING: loading.keep_waiting,
    Phase.FENCING: elections.keep_fencing,
    Phase.NOTIFY_LEADER: elections.keep_notifying,
    Phase.STEADY: followers.keep_steady,
    **reconfigurations.KEEP,
    Phase.DELETING: deletion.keep_deleting,
}


class Operator:
    """One operator, as a machine."""

    def __init__(self, config: OperatorConfig, own: NodeId) -> None:
        self.core = Core(config, own)

    def step(self, event: Event) -> list[Effect]:
        core = self.core
        core.now = event.now
        core.effects = []
        self._handle(event)
        self._progress()
        effects, core.effects = core.effects, []
        return effects

    def _handle(self, event: Event) -> None:
        core = self.core
        if isinstance(event, Received):
            self._on_message(event.sender, event.message)
        elif isinstance(event, Fired):
            self._on_timer(event.timer)
        elif isinstance(event, Started):
            core.state.nonce = event.nonce

    # Messages

    def _on_message(self, sender: Address, message: Message) -> None:
        core = self.core
        if isinstance(message, OperatorRequest):
            requests.on_request(core, sender, message)
        elif isinstance(message, MetadataMessage):
            if sender == METADATA:
                self._on_metadata(message)
            else:
                core.drop("not_the_keeper")
        elif not core.state.is_active:
            core.drop("not_active")
        elif isinstance(message, HeartbeatAnswer):
            self._on_heartbeat_answer(NodeId(sender), message)
        elif isinstance(message, ShardMessage):
            self._on_shard_message(NodeId(sender), message)
        else:
            core.drop("unexpected")

    def _on_metadata(self, message: MetadataMessage) -> None:
        core, state = self.core, self.core.state
        if isinstance(message, SessionBegun):
            self._stop()
            session.begin(core, message.session)
        elif isinstance(message, MetadataAnswer):
            session.on_answer(core, message)
        elif getattr(message, "session", None) != state.session:
            core.drop("another_session")
        elif isinstance(message, Elected):
            self._become_active()
        elif isinstance(message, SessionEnded):
            self._stop()
            session.end(core)
        elif isinstance(message, Deposed):
            self._stop()
            session.stand_again(core)
        elif isinstance(message, Changed):
            state.dirty.update(dict.fromkeys(loading.watched(message.path)))

    def _become_active(self) -> None:
        core, state = self.core, self.core.state
        core.note("active")
        state.is_active = True
        self._forget()
        state.round = heartbeats.first_round(state.nonce)
        loading.read_cluster(core, loading.EVERYTHING)
        core.timer(loading.HEARTBEAT, core.config.heartbeat_ms)

    def _stop(self) -> None:
        core, state = self.core, self.core.state
        if not state.is_active:
            return
        core.note("deposed")
        requests.refuse_all(core)
        state.is_active = state.is_loaded = state.is_ticking = False
        for control in state.shards.values():
            control.phase = Phase.LOADING
        state.calls = {}
        for timer in (loading.HEARTBEAT, TICK, shard_map.MAP):
            core.no_timer(timer)

    def _forget(self) -> None:
        """What an operator knows that has just become active: nothing."""
        state = self.core.state
        state.is_loaded = False
        state.calls, state.dirty = {}, {}
        state.nodes, state.shards = {}, {}
        state.definitions, state.drains = {}, {}
        state.leftovers, state.missing = {}, {}
        state.term, state.map, state.cluster, state.clock_visibility = 0, None, 0, None
        state.created_round = 0

    def _on_heartbeat_answer(self, sender: NodeId, message: HeartbeatAnswer) -> None:
        core = self.core
        known = core.state.nodes.get(sender)
        problem = bounds.problem_with_heartbeat(message, {} if known is None else known.reports)
        if problem is not None:
            bounds.refuse(core, sender, message, problem)
            return
        heartbeats.on_heartbeat_answer(core, sender, message)
        node = core.state.nodes.get(sender)
        if node is not None:
            shard_map.push_if_older(core, node)

    def _on_shard_message(self, sender: NodeId, message: ShardMessage) -> None:
        core = self.core
        control = core.state.shards.get(message.shard)
        handler = FROM_NODES.get(type(message))
        if handler is None or control is None or control.metadata is None:
            core.drop("unexpected")
        elif message.epoch != control.epoch:
            core.drop("another_epoch")
        elif (problem := bounds.problem_with_answer(core, control, message)) is not None:
            bounds.refuse(core, sender, message, problem)
        elif control.phase is Phase.STEADY and isinstance(message, FenceResponse):
            followers.on_late_fence(core, control, sender, message)
        elif control.phase is Phase.DELETING and isinstance(message, DeleteShardResponse):
            deletion.on_deleted(core, control, sender, message)
        else:
            handler(core, control, sender, message)

    # Timers

    def _on_timer(self, timer: TimerName) -> None:
        core, state = self.core, self.core.state
        if timer == session.CANDIDACY:
            session.enter(core)
        elif not state.is_active:
            return
        elif timer == loading.HEARTBEAT:
            heartbeats.on_heartbeat_timer(core)
            streams.found_shards(core)
            moves.move_replicas(core)
            requests.expire(core)
            session.expire_calls(core)
            shard_map.push_again(core)
            self._tick()
        elif timer == shard_map.MAP:
            shard_map.on_map_timer(core)
        elif timer == TICK:
            state.is_ticking = False
            self._tick()

    def _tick(self) -> None:
        """Look at what is under way in every shard, and again soon if that is not the end of it."""
        core = self.core
        is_under_way = False
        for control in list(core.state.shards.values()):
            keep = KEEP.get(control.phase)
            if keep is not None:
                keep(core, control)
                is_under_way = is_under_way or not _is_at_rest(core, control)
        if is_under_way:
            self._tick_soon()

    def _tick_soon(self) -> None:
        if not self.core.state.is_ticking:
            self.core.state.is_ticking = True
            self.core.timer(TICK, self.core.config.tick_ms)

    # What has become possible

    def _progress(self) -> None:
        core, state = self.core, self.core.state
        if not state.is_active:
            core.entered = []
            return
        has_moved = bool(core.entered) or state.map_changed
        if core.entered:
            self._tick_soon()
        while core.entered:
            control, phase = core.entered.pop(0)
            begin = BEGIN.get(phase)
            if begin is not None and control.phase is phase:
                begin(core, control)
        if has_moved:
            deletion.delete_marked(core)
        loading.read_dirty(core)
        shard_map.watch_map(core)
        if has_moved and state.waiting:
            requests.settle(core)

    # What a driver and a checker need

    def invariants(self) -> list[Violation]:
        """O1 to O4: what does not hold."""
        core = self.core
        state, found = core.state, []
        for control in state.shards.values():
            if not state.is_active and control.phase is not Phase.LOADING:
                found.append(Violation("O1", f"{control.shard} is in {control.phase.value}"))
            if control.metadata is not None and not is_legal(control.metadata):
                found.append(Violation("O2", f"{control.metadata}"))
            if state.is_active and not _is_consistent(control):
                found.append(Violation("O3", f"{control.shard} is in {control.phase.value}"))
        if len(state.waiting) > core.config.requests_max:
            found.append(Violation("O4", f"{len(state.waiting)} requests wait"))
        return found

    def clone(self) -> Self:
        twin = type(self)(self.core.config, self.core.state.own)
        twin.core.state = clone_plain(self.core.state)
        twin.core.now = Now(self.core.now.monotonic_ns, self.core.now.wall_ns)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.core.state)


def _is_at_rest(core: Core, control: ShardControl) -> bool:
    """Nothing of this shard is due before the next heartbeat."""
    if control.phase is Phase.STEADY:
        return followers.is_at_rest(core, control)
    return control.phase not in KEEP


def is_legal(metadata: ShardMetadata) -> bool:
    """LegalLeaderAndEnsemble, and that nobody is in and out at once."""
    ensemble = metadata.ensemble
    return (
        (metadata.leader is None or metadata.leader in ensemble)
        and metadata.replication_factor == len(ensemble) == len(dict.fromkeys(ensemble))
        and not any(node in ensemble for node in metadata.removed_nodes)
    )


def _is_consistent(control: ShardControl) -> bool:
    if control.phase is Phase.WRITING:
        return control.writing is not None and control.call is not None
    if control.phase in (Phase.LOADING, Phase.FORGETTING):
        return True
    return control.writing is None and control.metadata is not None
