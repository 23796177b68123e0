"""What stands in the store becomes what the operator works with: nodes, streams, drains, and each shard.

An operator that becomes active reads everything at one moment. Of shards it finds what other operators have
left, and goes on from there:

- steady state: it is left as it is; heartbeats will tell whether it is true;
- election, reconfiguration: an election in a higher epoch. One that had dropped a PREPARE, or has to resolve
  a COMMIT, does so (``ensembles``);
- deleting: goes on;
- nothing, though the stream is there: the shard is founded.
"""

from __future__ import annotations

import re

import msgspec

from motet.core.metadata.definitions import (
    StreamDefinition,
    check_name,
    decode_stream_definition,
    shard_names,
)
from motet.core.metadata.messages import Found, Listing
from motet.core.metadata.paths import (
    DRAINS,
    MAP_TERM,
    MAPS,
    NODES,
    SETTINGS,
    SHARDS,
    STREAMS,
    stream_path,
)
from motet.core.operator.clock_visibility import take_settings
from motet.core.operator.context import Core
from motet.core.operator.elections import start_election
from motet.core.operator.shard_map import decode_term, lose_term
from motet.core.operator.state import (
    CallKind,
    Definition,
    NodeEntry,
    NodeState,
    Phase,
    ShardControl,
    StoreCall,
)
from motet.core.operator.writing import is_ours, is_unsettled, load, on_saved, save
from motet.core.streams.cluster_messages import ShardMetadata, ShardStatus, decode_metadata
from motet.errors import BadInput, MotetError, TooLarge
from motet.ids import NodeId, StreamName, TimerName
from motet.limits import cluster_nodes_max, schema_bytes_max, shard_replicas_max, stream_shards_max

EVERYTHING = (DRAINS, MAPS, NODES, SETTINGS, SHARDS, STREAMS)
WATCHED = (DRAINS, NODES, SETTINGS, STREAMS)
"""Paths that others write to."""

HEARTBEAT = TimerName("heartbeat")

_decode_entry = msgspec.json.Decoder(NodeEntry).decode

_STREAM_ID = re.compile(r"[0-9a-f]{16}")


def watched(path: str) -> list[str]:
    """The paths that have to be read again when something at, below or above one of them has changed."""
    return [each for each in WATCHED if path.startswith(each) or each.startswith(path)]


def read_cluster(core: Core, paths: tuple[str, ...]) -> None:
    """Read what is below these paths."""
    call = StoreCall(
        CallKind.READ_CLUSTER,
        core.now_ns,
        paths=paths,
        incarnations=core.incarnations(),
        listing=Listing(paths),
    )
    go_on_reading(core, call)


def go_on_reading(core: Core, call: StoreCall) -> bool:
    """The next read of a listing; False: all is read."""
    assert call.listing is not None, "a cluster is read by a listing"
    operations = call.listing.operations
    if operations:
        core.read(operations, call)
    return bool(operations)


def read_dirty(core: Core) -> None:
    """Read again what has changed, one reading at a time."""
    state = core.state
    if not state.dirty or core.now_ns < state.read_again_ns:
        return
    if core.is_asked(CallKind.READ_CLUSTER):
        return
    paths = tuple(sorted(state.dirty))
    state.dirty = {}
    read_cluster(core, paths)


def on_cluster_read(core: Core, call: StoreCall) -> None:
    """What was read replaces what was known below those paths."""
    assert call.listing is not None, "a cluster is read by a listing"
    nodes = call.listing.found
    below = {path: [n for n in nodes if n.path.startswith(f"{path}/")] for path in call.paths}
    if NODES in below:
        _take_nodes(core, below[NODES])
        core.timer(HEARTBEAT, 0)
    if STREAMS in below:
        _take_streams(core, below[STREAMS])
    if DRAINS in below:
        core.state.drains = {
            NodeId(each.path.removeprefix(f"{DRAINS}/")): each.stat.version
            for each in below[DRAINS]
        }
    if MAPS in below:
        _take_term(core, below[MAPS])
    if SETTINGS in below:
        take_settings(core, below[SETTINGS])
    core.state.map_changed = True
    if SHARDS in below:
        _take_shards(core, call, below[SHARDS])
        core.state.is_loaded = True
        core.note("loaded", f"{len(core.state.shards)} shards, {len(core.state.nodes)} nodes")


def _take_nodes(core: Core, found: list[Found]) -> None:
    state = core.state
    entries: dict[NodeId, NodeEntry] = {}
    for each in found[:cluster_nodes_max]:
        try:
            entry = _decode_entry(each.data)
        except msgspec.MsgspecError:
            if state.bad_entries.get(each.path) != each.stat.czxid:
                core.note("bad_entry", each.path)
            state.bad_entries[each.path] = each.stat.czxid
            continue
        entries[entry.id] = entry
    for node in state.nodes.values():
        node.entry = entries.get(node.id)
    for node_id in sorted(entries):
        if node_id not in state.nodes:
            state.nodes[node_id] = NodeState(node_id, entries[node_id], core.now_ns)
    used = {node: None for each in state.shards.values() for node in named_nodes(each)}
    for node_id in [n for n, node in state.nodes.items() if node.entry is None and n not in used]:
        del state.nodes[node_id]


def _take_streams(core: Core, found: list[Found]) -> None:
    """Definitions that are none are named once, and then left alone: somebody has to look at them."""
    definitions: dict[StreamName, Definition] = {}
    #: whose an id is: who was known by it before keeps it, and then it is the first one's
    names = {each.value.id: name for name, each in core.state.definitions.items()}
    bad: dict[str, tuple[int, str]] = {}
    for each in found:
        try:
            value = _checked_definition(each)
            if names.setdefault(value.id, value.name) != value.name:
                raise BadInput(f"{names[value.id]!r} has the same id, {value.id}")
        except (msgspec.MsgspecError, UnicodeDecodeError, MotetError) as error:
            bad[each.path] = (
                each.stat.version,
                error.what if isinstance(error, MotetError) else str(error),
            )
            if core.state.bad_definitions.get(each.path) != bad[each.path]:
                core.note("bad_definition", f"{each.path}: {bad[each.path][1]}")
            continue
        definitions[value.name] = Definition(value, each.stat.version)
    core.state.definitions, core.state.bad_definitions = definitions, bad
    defined = {shard: None for each in definitions.values() for shard in shard_names(each.value)}
    for shard in [shard for shard in core.state.shards if shard not in defined]:
        del core.state.shards[shard]


def check_definition(definition: StreamDefinition) -> None:
    """``BadInput`` for a stream that cannot be."""
    check_name(definition.name, "a stream")
    if not _STREAM_ID.fullmatch(definition.id):
        raise BadInput(f"{definition.id[:40]!r} is not the id of a stream", hint="16 hex digits")
    if not 0 < definition.shards <= stream_shards_max:
        raise BadInput(f"{definition.shards} shards are not between 1 and {stream_shards_max}")
    if definition.replicas is not None and not 0 < definition.replicas <= shard_replicas_max:
        raise BadInput(f"{definition.replicas} replicas are not between 1 and {shard_replicas_max}")
    if definition.schema is not None and len(definition.schema) > schema_bytes_max:
        raise TooLarge(
            f"a schema of {len(definition.schema)} bytes exceeds the limit of {schema_bytes_max}"
        )
    if definition.is_deleted:
        raise BadInput("a stream cannot be created as deleted")


def _checked_definition(found: Found) -> StreamDefinition:
    """What stands there, if it is a stream that can be, under its own name."""
    value = decode_stream_definition(found.data)
    check_definition(msgspec.structs.replace(value, is_deleted=False))
    if found.path != stream_path(value.name):
        raise BadInput(f"it is the definition of {value.name!r}")
    return value


def _take_term(core: Core, found: list[Found]) -> None:
    state = core.state
    for each in found:
        if each.path == MAP_TERM:
            state.term_version = each.stat.version
            state.term_seen, state.cluster = decode_term(each.data)
    if 0 < state.term < state.term_seen:
        lose_term(core)


def _take_shards(core: Core, call: StoreCall, found: list[Found]) -> None:
    """All shards, after a start: nothing that was under way is ours any more."""
    state = core.state
    state.shards = {}
    streams = {
        shard: name for name, each in state.definitions.items() for shard in shard_names(each.value)
    }
    for each in found:
        metadata = _decoded(core, each)
        if metadata is None or metadata.shard not in streams:
            continue  # garbage before loss: somebody has to look at it
        control = core.new_control(metadata.shard, streams[metadata.shard])
        state.shards[metadata.shard] = control
        control.incarnations = dict(call.incarnations)
        adopt(core, control, metadata, each.stat.version)


def named_nodes(control: ShardControl) -> list[NodeId]:
    """The nodes that the metadata of a shard names, as it stands and as it is being written."""
    nodes: dict[NodeId, None] = {}
    for metadata in (control.metadata, control.writing):
        if metadata is None:
            continue
        change = metadata.reconfiguration
        nodes.update(dict.fromkeys((*metadata.ensemble, *metadata.removed_nodes)))
        if change is not None and change.new_node is not None:
            nodes[change.new_node] = None
    return list(nodes)


def know_nodes(core: Core, control: ShardControl) -> None:
    """A node that metadata names is known, whether it has an entry or not."""
    for node in named_nodes(control):
        if node not in core.state.nodes:
            core.state.nodes[node] = NodeState(node, None, core.now_ns)


def _decoded(core: Core, each: Found) -> ShardMetadata | None:
    try:
        return decode_metadata(each.data)
    except msgspec.MsgspecError:
        core.note("bad_metadata", each.path)
        return None


def adopt(core: Core, control: ShardControl, metadata: ShardMetadata, version: int) -> None:
    """Go on from what stands there."""
    control.metadata, control.version = metadata, version
    control.writing = control.call = control.left_alone = None
    control.look_again_ns = core.in_ms(core.config.look_again_ms)
    know_nodes(core, control)
    if metadata.status is ShardStatus.STEADY_STATE:
        core.enter(control, Phase.STEADY)
    elif metadata.status is ShardStatus.DELETING:
        core.enter(control, Phase.DELETING)
    else:
        start_election(core, control, f"found in {metadata.status.value}")


def on_shard_read(
    core: Core, control: ShardControl, call: StoreCall, nodes: tuple[Found, ...]
) -> None:
    """The answer to ``load``: what has become of our write, or what somebody else has written."""
    control.call = None
    control.incarnations = dict(call.incarnations)
    if not nodes:
        _on_shard_missing(core, control)
        return
    found = _decoded(core, nodes[0])
    if found is None:
        load(core, control, after_ms=core.config.foreign_ms)
        return
    version = nodes[0].stat.version
    if is_ours(control, found):
        core.note_shard("was_written", control)
        on_saved(core, control, call, version)
    elif version == control.version and control.writing is not None:
        core.note_shard("was_not_written", control)
        save(core, control, control.writing, control.after_write)
    elif _is_moved_by_another(control, found, version):
        core.note_shard("left_alone", control, f"{found.status.value} in epoch {found.epoch}")
        control.metadata, control.version, control.writing = found, version, None
        control.left_alone = version
        core.enter(control, Phase.WAITING)
        control.until_ns = core.backoff_ns(core.config.foreign_ms, core.config.election_ms_max, 0)
    else:
        adopt(core, control, found, version)


def _is_moved_by_another(control: ShardControl, found: ShardMetadata, version: int) -> bool:
    is_unknown = found == control.writing  # perhaps ours; nobody else is known to be about
    return is_unsettled(found) and not is_unknown and version != control.left_alone


def _on_shard_missing(core: Core, control: ShardControl) -> None:
    """It was deleted, by an operator that knew more; or it was never created."""
    if control.version is None and control.writing is not None:
        save(core, control, control.writing, control.after_write)
        return
    if control.metadata is not None and control.metadata.status is ShardStatus.DELETING:
        core.note_shard("deleted", control)
        del core.state.shards[control.shard]
        core.state.map_changed = True
        return
    core.note_shard("is_gone", control)
    core.enter(control, Phase.FORGETTING)
    control.writing = control.call = None
    core.state.dirty[STREAMS] = None  # if its stream is gone too, so is the shard


def keep_waiting(core: Core, control: ShardControl) -> None:
    """Somebody else had its time: see what has come of it."""
    if core.now_ns >= control.until_ns:
        load(core, control)


def is_equal(one: StreamDefinition, other: StreamDefinition) -> bool:
    """Whether two definitions ask for the same stream; ids are drawn anew by everybody who asks."""
    return (one.name, one.shards, one.replicas, one.schema) == (
        other.name,
        other.shards,
        other.replicas,
        other.schema,
    )
