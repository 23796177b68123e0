"""The shard map: where everything is. Nodes get it from the operator, and hand it on to clients.

M1  Of two maps the one with the higher version is newer, also when another operator made it. A version is the
    operator's *term* and a count; the term is a counter in the store that every operator raises, by
    compare-and-set, when it becomes active. No map is pushed before that.
    One that outlives an operator with a later term, because two were active for a while, raises its own
    again: else no node would ever take a map of it. Likewise above the term of a map that a node says it has.
M2  A map is pushed to all nodes when something in it has changed; again to a node that says in a heartbeat
    answer that it has an older one; and now and then to those that answer no heartbeats.
M3  A map says which cluster it is of: a number that the first operator ever draws, and that stands beside the
    term from then on.
"""

from __future__ import annotations

from motet.core.metadata.definitions import shard_names
from motet.core.metadata.paths import MAP_TERM, MAPS
from motet.core.operator.clock_visibility import is_enabled
from motet.core.operator.context import Core
from motet.core.operator.state import CallKind, Definition, NodeState, StoreCall
from motet.core.streams.cluster_messages import (
    NodePlace,
    ShardMap,
    ShardMapPushed,
    ShardPlace,
    StreamPlace,
    versions_per_term,
)
from motet.ids import Epoch, ShardName, TimerName
from motet.limits import map_term_step_max

MAP = TimerName("map")


def raise_term(core: Core) -> None:
    """Become a later operator than all before us (M1)."""
    state = core.state
    heard = min(state.term_heard, state.term_seen + map_term_step_max)
    term = max(state.term_seen, heard) + 1
    state.cluster = state.cluster or state.nonce or 1
    data = encode_term(term, state.cluster)
    call = StoreCall(CallKind.PUT_TERM, core.now_ns, about=str(term))
    core.put(MAP_TERM, data, state.term_version, call)


def encode_term(term: int, cluster: int) -> bytes:
    """What the store has of the operators so far, and of the cluster (M1, M3)."""
    return f"{term} {cluster:016x}".encode()


def decode_term(data: bytes) -> tuple[int, int]:
    """The term and the number of the cluster; 0 for what cannot be read."""
    term, _, cluster = data.partition(b" ")
    try:
        return int(term), int(cluster, 16) if len(cluster) == 16 else 0
    except ValueError:
        return 0, 0


def on_term_raised(core: Core, call: StoreCall, version: int) -> None:
    state = core.state
    state.term, state.term_version = int(call.about), version
    state.term_seen = max(state.term_seen, state.term)
    state.map_changed = True


def lose_term(core: Core) -> None:
    """Another operator has raised the term after us: what we know may be older than what it has done."""
    state = core.state
    state.term, state.map = 0, None
    for control in state.shards.values():
        control.look_again_ns = core.in_ms(core.config.look_again_ms)  # W5


def watch_map(core: Core) -> None:
    """At the end of a step: something may have changed; look a little later, at all of it at once."""
    state = core.state
    if state.map_changed and state.term:
        state.map_changed = False
        core.timer(MAP, core.config.map_ms)


def on_map_timer(core: Core) -> None:
    """Push the map, if it has changed."""
    state = core.state
    if not state.term:
        return  # set before we were elected once more: the map follows when the term is raised
    old = state.map
    version = state.term * versions_per_term + 1 if old is None else old.version
    new = _build(core, version)
    if old is not None and new == old:
        return
    if old is not None:
        new = _build(core, version + 1)
    state.map = new
    state.map_again_ns = core.in_ms(core.config.map_again_ms)
    for node in state.nodes.values():
        if node.entry is not None:
            core.send(node.id, ShardMapPushed(new))


def push_if_older(core: Core, node: NodeState) -> None:
    """After a heartbeat answer (M2)."""
    state = core.state
    if state.map is None or node.round == 0:
        return
    if node.map_version < state.map.version:
        core.send(node.id, ShardMapPushed(state.map))
    elif node.map_version // versions_per_term > state.term:
        core.note(
            "later_term", f"{node.id} has a map of term {node.map_version // versions_per_term}"
        )
        lose_term(core)
        state.term_heard = max(state.term_heard, node.map_version // versions_per_term)
        state.dirty[MAPS] = None
        state.read_again_ns = core.in_ms(core.config.foreign_ms)  # it may still be at work


def push_again(core: Core) -> None:
    """To nodes that answer no heartbeats (M2)."""
    state = core.state
    if state.map is None or core.now_ns < state.map_again_ns:
        return
    state.map_again_ns = core.in_ms(core.config.map_again_ms)
    for node in state.nodes.values():
        if node.entry is not None and not node.has_data:
            core.send(node.id, ShardMapPushed(state.map))


def _build(core: Core, version: int) -> ShardMap:
    state = core.state
    nodes = tuple(
        NodePlace(node.id, node.entry.native, node.entry.http, node.entry.roles)
        for node in (state.nodes[node_id] for node_id in sorted(state.nodes))
        if node.entry is not None
    )
    streams = tuple(
        place_of(core, state.definitions[name])
        for name in sorted(state.definitions)
        if not state.definitions[name].value.is_deleted
    )
    enabled, fence = is_enabled(core), state.fence or 0
    return ShardMap(version, state.own, nodes, streams, state.cluster, enabled, fence)


def place_of(core: Core, definition: Definition) -> StreamPlace:
    """A stream and who serves it, as far as is known."""
    places = tuple(_shard_place(core, shard) for shard in shard_names(definition.value))
    return StreamPlace(definition.value, places)


def _shard_place(core: Core, shard: ShardName) -> ShardPlace:
    control = core.state.shards.get(shard)
    if control is None or control.metadata is None:
        return ShardPlace(shard, Epoch(0), None, ())
    known = control.metadata
    wiped = tuple(sorted(control.wiped)) if control.is_lost else ()
    return ShardPlace(shard, known.epoch, known.leader, known.ensemble, wiped)
