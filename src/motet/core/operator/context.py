"""What the protocols of an operator share: its state, and the effects of a step so far.

Each protocol is a module of functions over a ``Core``, as in the other cores.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS, CancelTimer, Effect, Message, Note, Now, Send, SetTimer
from motet.core.metadata.messages import (
    METADATA,
    Create,
    Delete,
    MetadataRequest,
    Read,
    ReadOperation,
    Set,
    Write,
    WriteOperation,
)
from motet.core.operator.state import (
    CallKind,
    NodeState,
    Phase,
    Retry,
    ShardControl,
    State,
    StoreCall,
    WaitingClient,
)
from motet.core.placement.choosing import Load
from motet.core.streams.cluster_messages import Heartbeat, OperatorRefused, ShardMetadata
from motet.errors import MotetError
from motet.errors.operator import MapTooOld
from motet.ids import Address, NodeId, RequestId, ShardName, StreamName, TimerName
from motet.limits import operator_requests_max


class OperatorConfig(msgspec.Struct, frozen=True):
    """Times are in milliseconds.

    A leader that dies is missed after ``dead_after_ms`` at the latest one heartbeat later. Then an election
    takes two writes in the store and two round trips to nodes, and ``grace_ms`` if a node does not answer: in
    sum well below two seconds.
    """

    heartbeat_ms: int = 200
    #: a node that has not answered for so long is taken for dead
    dead_after_ms: int = 1_000
    #: how often what is under way is looked at; between heartbeats, while something is
    tick_ms: int = 50
    #: after the majority has answered, so long are the others waited for that seem alive
    grace_ms: int = 100
    #: what was not answered is sent again; doubles up to the maximum where it says so
    retry_ms: int = 300
    retry_ms_max: int = 5_000
    #: an election without a majority is begun anew in a higher epoch after so long; doubles up to the maximum
    election_ms: int = 3_000
    election_ms_max: int = 60_000
    #: a leader that does not answer a step of its election or a reconfiguration for so long is replaced
    step_ms: int = 3_000
    #: an election or reconfiguration of another operator is left alone as long as it moves within this
    foreign_ms: int = 2_000
    #: a new node that has fetched nothing more of its snapshot for so long is given up
    snapshot_ms: int = 60_000
    #: a contraction that stays unsafe for so long is rolled back
    unsafe_ms: int = 30_000
    #: a store that says nothing for so long has an unknown outcome
    store_ms: int = 10_000
    #: a shard that was taken over from another operator is read once more after so long
    look_again_ms: int = 15_000
    #: replicas of a dead node are replaced after so long
    replace_after_ms: int = 30_000
    #: before a shard is created, nodes of other shards have so long to say which clocks were handed out
    creation_ms: int = 10_000
    #: leaderships are balanced by one after so long in which every shard was steady
    balance_after_ms: int = 10_000
    #: a node whose wall was wrong leads nothing until it has been right for so long
    drift_hold_ms: int = 10_000
    #: changes of ensembles that the operator begins by itself and that are under way at once
    moves_max: int = 4
    #: changes of the shard map are gathered so long before they are pushed
    map_ms: int = 20
    #: nodes that answer no heartbeats get the shard map again this often
    map_again_ms: int = 5_000
    #: a client is told that it is not known after so long
    request_ms: int = 60_000
    requests_max: int = operator_requests_max
    #: replicas of a stream that does not say how many
    replicas: int = 3


_jitter_parts = 8


class Core:
    """One operator while it takes a step."""

    def __init__(self, config: OperatorConfig, own: NodeId) -> None:
        self.config = config
        self.state = State(own)
        self.now = Now(0, 0)
        self.effects: list[Effect] = []
        #: shards that have entered a phase in this step, and do not know what to do in it yet
        self.entered: list[tuple[ShardControl, Phase]] = []

    # Who is there

    def node(self, node: NodeId) -> NodeState | None:
        return self.state.nodes.get(node)

    def is_alive(self, node: NodeId) -> bool:
        known = self.state.nodes.get(node)
        return known is not None and known.is_alive

    def is_dead(self, node: NodeId) -> bool:
        known = self.state.nodes.get(node)
        return known is not None and known.is_dead

    def incarnation(self, node: NodeId) -> int:
        known = self.state.nodes.get(node)
        return 0 if known is None else known.incarnation

    def data_nodes(self) -> list[NodeId]:
        """Those that live and can take replicas, in the order of their names."""
        nodes = self.state.nodes
        return [
            node
            for node in sorted(nodes)
            if nodes[node].is_alive
            and nodes[node].entry is not None
            and nodes[node].has_data
            and node not in self.state.drains
        ]

    def drifting(self) -> list[NodeId]:
        """Data nodes whose wall is wrong, or was a moment ago."""
        return [node.id for node in self.state.nodes.values() if node.is_alive and node.is_drifting]

    @property
    def is_settled(self) -> bool:
        """Of every data node it is known whether it lives."""
        nodes = self.state.nodes.values()
        return all(n.is_heard or n.is_dead for n in nodes if n.entry is not None and n.has_data)

    def load(self) -> Load:
        """How much the nodes have that can take more."""
        known = [c.writing or c.metadata for c in self.state.shards.values()]
        there = [metadata for metadata in known if metadata is not None]
        holders = [_holders(each) for each in there]
        return Load.of(self.data_nodes(), holders, [each.leader for each in there])

    # Time

    @property
    def now_ns(self) -> int:
        return self.now.monotonic_ns

    def in_ms(self, after_ms: int) -> int:
        return self.now.monotonic_ns + after_ms * NS_PER_MS

    def due(self, retry: Retry, *, doubles: bool = True) -> bool:
        """Whether it is time to send again; the next time is later."""
        if self.now_ns < retry.next_ns:
            return False
        config = self.config
        pause_ms = config.retry_ms << min(retry.attempts, 10) if doubles else config.retry_ms
        retry.attempts += 1
        retry.next_ns = self.in_ms(min(pause_ms, config.retry_ms_max))
        return True

    def backoff_ns(self, least_ms: int, most_ms: int, failures: int) -> int:
        """When to try again after so many failures; two operators hardly ever at the same time."""
        pause_ms = min(least_ms << min(failures, 16), most_ms)
        part = (self.state.nonce + failures) % _jitter_parts
        return self.in_ms(pause_ms + pause_ms * part // (2 * _jitter_parts))

    # Effects

    def send(self, to: NodeId, message: Message) -> None:
        self.effects.append(Send(Address(to), message))

    def reply(self, to: Address, message: Message) -> None:
        self.effects.append(Send(to, message))

    def ask_nodes(self) -> None:
        """Ask all data nodes how they are."""
        state = self.state
        state.round += 1
        seal = tuple(
            shard
            for shard, each in state.shards.items()
            if (definition := state.definitions.get(each.stream)) is not None
            and definition.value.is_deleted
        )
        message = Heartbeat(state.round, state.clock, seal, state.clock_visibility, state.found)
        for node in state.nodes.values():
            if node.has_data:
                self.send(node.id, message)

    def answer(self, waiting: WaitingClient, message: Message) -> None:
        """The last word to a client."""
        self.state.waiting = [each for each in self.state.waiting if each is not waiting]
        self.reply(waiting.client, message)

    def refuse(self, waiting: WaitingClient, error: MotetError) -> None:
        fence = self.state.fence if isinstance(error, MapTooOld) else None
        request = waiting.message.request
        self.answer(waiting, OperatorRefused(request, error.code, error.what, error.advice, fence))

    def timer(self, name: TimerName, after_ms: int, *, in_step: bool = False) -> None:
        self.effects.append(SetTimer(name, after_ms, in_step))

    def no_timer(self, name: TimerName) -> None:
        self.effects.append(CancelTimer(name))

    def note(self, what: str, detail: str = "") -> None:
        self.effects.append(Note(f"operator_{what}", detail))

    def note_shard(self, what: str, control: ShardControl, detail: str = "") -> None:
        text = f"{control.shard} epoch {control.epoch}"
        self.note(what, f"{text}: {detail}" if detail else text)

    def drop(self, why: str) -> int:
        """Count a message that is not acted on; how many of them there were."""
        counts = self.state.counts
        counts[why] = count = counts.get(why, 0) + 1
        return count

    # The keeper

    def next_request(self) -> RequestId:
        request = RequestId(self.state.next_request)
        self.state.next_request += 1
        return request

    def put(
        self, path: str, data: bytes, version: int | None, call: StoreCall, *also: WriteOperation
    ) -> RequestId:
        """Write a node if it has this version; None creates it. ``also`` is done at the same moment."""
        if version is None:
            return self._write(call, Create(path, data), *also)
        return self._write(call, Set(path, data, version), *also)

    def delete(self, path: str, version: int, call: StoreCall, *also: WriteOperation) -> RequestId:
        """Delete a node if it has this version. ``also`` is done at the same moment."""
        return self._write(call, Delete(path, version), *also)

    def _write(self, call: StoreCall, *operations: WriteOperation) -> RequestId:
        return self._ask(Write(self.next_request(), self.state.session, operations), call)

    def read(self, operations: tuple[ReadOperation, ...], call: StoreCall) -> RequestId:
        return self._ask(Read(self.next_request(), self.state.session, operations), call)

    def _ask(self, message: MetadataRequest, call: StoreCall) -> RequestId:
        """Ask, and remember what for."""
        self.state.calls[message.request] = call
        self.effects.append(Send(METADATA, message))
        return message.request

    def is_asked(self, kind: CallKind, about: str = "") -> bool:
        return any(call.kind is kind and call.about == about for call in self.state.calls.values())

    def incarnations(self) -> tuple[tuple[NodeId, int], ...]:
        """Lives of nodes as they are known now."""
        nodes = self.state.nodes
        return tuple(
            (node, nodes[node].incarnation) for node in sorted(nodes) if nodes[node].incarnation
        )

    # Phases

    def new_control(self, shard: ShardName, stream: StreamName) -> ShardControl:
        """A shard that has come to be known."""
        self.state.created_round = 0
        return ShardControl(
            shard, stream, creation_round=self.state.round + 1, since_ns=self.now_ns
        )

    def enter(self, control: ShardControl, phase: Phase, *, for_ms: int = 0) -> None:
        """Begin a phase: whatever it sends is due, and it is given up after so long."""
        control.phase = phase
        control.retry = Retry(self.now_ns)
        control.until_ns = self.in_ms(for_ms)
        self.entered.append((control, phase))
        self.state.map_changed = True


def _holders(metadata: ShardMetadata) -> tuple[NodeId, ...]:
    """Who has a replica, or is about to get one."""
    change = metadata.reconfiguration
    more = () if change is None or change.new_node is None else (change.new_node,)
    return (*metadata.ensemble, *more)
