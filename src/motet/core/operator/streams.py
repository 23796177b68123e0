"""Streams: what is defined in the store is founded, shard by shard.

A definition is written if there is none of that name; the same again is fine. Whoever wrote it, the active
operator founds the shards that have no metadata yet: it chooses an ensemble, and writes metadata that says
*new* and *election*. From there on it is an election, whose fences make members of nodes that hold nothing.

G1  A stream is created if nothing has been deleted since its client asked. The *fence* is the version of the
    term in the keeper: it rises with every operator that becomes active, and in the same moment in which a
    definition is deleted. Clients have it from their maps and name it; a definition is created only while
    the keeper has that very fence. So a request that comes late or twice, or a write of an operator that is
    active no longer, does not bring back what has been deleted meanwhile; whoever is there to hear it
    is told that its map is too old.

The first entry of a shard is above every clock that was handed out before. Somebody may have read the feed
of all streams up to a clock. A new stream with changes below it would be overlooked. So before a leader
without a log is told to lead, all data nodes are asked for the highest clock that they know of from a log,
and it is told the highest of all.

V1  Every clock that was handed out is in an entry that a majority of an ensemble has. So it is known when a
    majority of each ensemble has answered, to a heartbeat that was sent after the shard came to be known. A
    node that has lost its disk does not count: what it had acknowledged is gone with it.
    What is known for one shard is known for all that came to be known before it, as long as no other shard
    does so: those of one stream are not looked at one by one.
V2  A shard that has lost its majority does not keep streams from being created for ever: after a while those
    are believed that live.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.metadata.definitions import (
    StreamDefinition,
    encode_stream_definition,
    shard_names,
)
from motet.core.metadata.messages import Check
from motet.core.metadata.paths import MAP_TERM, stream_path
from motet.core.operator.clock_visibility import has_obeyed
from motet.core.operator.context import Core
from motet.core.operator.loading import check_definition, is_equal
from motet.core.operator.shard_map import place_of
from motet.core.operator.state import (
    CallKind,
    Definition,
    NodeState,
    Phase,
    ShardControl,
    StoreCall,
    Waiting,
)
from motet.core.operator.writing import save
from motet.core.placement.choosing import new_ensemble
from motet.core.shardlog.messages import RECOVERING
from motet.core.streams.cluster_messages import (
    CreateStream,
    Heartbeat,
    ShardMetadata,
    ShardStatus,
    StreamCreated,
)
from motet.errors import BadInput, StreamExists, TooLarge
from motet.errors.operator import MapTooOld, NoNodeToPlaceOn, NotActive
from motet.ids import Epoch, ShardName, StreamName
from motet.limits import streams_max


def create_stream(core: Core, waiting: Waiting, message: CreateStream) -> None:
    """Write the definition, if it is not there."""
    definition = message.definition
    check_definition(definition)
    there = core.state.definitions.get(definition.name)
    if there is not None:
        _check_same(definition, there.value)
        waiting.is_defined = True
        return
    _check_free(core, definition.name)
    _check_id(core, definition)
    fence = _checked_fence(core, message)
    if len(core.state.definitions) >= streams_max:
        raise TooLarge(f"there are {streams_max} streams already", hint="delete one first")
    if core.is_settled and definition.replicas is not None:
        nodes = len(core.data_nodes())
        if definition.replicas > nodes:
            raise NoNodeToPlaceOn(f"{definition.replicas} replicas, and {nodes} data nodes")
    _put_definition(core, definition, fence)


def _checked_fence(core: Core, message: CreateStream) -> int:
    """G1: ``MapTooOld`` if something may have been deleted since that was asked."""
    fence = core.state.fence
    if fence is None:
        raise NotActive(f"{core.state.own} has only just become the active operator")
    if message.fence != fence:
        name = message.definition.name
        raise MapTooOld(f"streams may have been deleted since {name!r} was asked for")
    return fence


def _put_definition(core: Core, definition: StreamDefinition, fence: int) -> None:
    call = StoreCall(CallKind.PUT_STREAM, core.now_ns, about=definition.name, definition=definition)
    path, data = stream_path(definition.name), encode_stream_definition(definition)
    core.put(path, data, None, call, Check(MAP_TERM, fence))


def _check_same(wanted: StreamDefinition, there: StreamDefinition) -> None:
    if there.is_deleted:
        hint = "try again when that is done"
        raise StreamExists(f"the stream {wanted.name!r} is being deleted", hint=hint)
    if not is_equal(wanted, there):
        raise StreamExists(f"there is a stream {wanted.name!r}, and it is a different one")


def _check_free(core: Core, name: StreamName) -> None:
    """``StreamExists`` if something stands in the way that is no definition."""
    path = stream_path(name)
    bad = core.state.bad_definitions.get(path)
    if bad is not None:
        raise StreamExists(
            f"{path} in the keeper is not the definition of a stream: {bad[1]}",
            hint=f"see `motet keeper get {path}`; remove it with `motet keeper delete {path} --as-node`",
        )


def _check_id(core: Core, definition: StreamDefinition) -> None:
    """Shards are named by the id of their stream: two streams of one id would have the same shards."""
    for name, each in core.state.definitions.items():
        if each.value.id == definition.id:
            raise BadInput(f"the stream {name!r} has the id {definition.id} already")


def on_stream_put(core: Core, call: StoreCall, version: int) -> None:
    """The definition stands."""
    definition = call.definition
    assert definition is not None
    core.state.definitions[definition.name] = Definition(definition, version)
    core.state.map_changed = True
    for waiting in core.state.waiting:
        message = waiting.message
        if isinstance(message, CreateStream) and message.definition.id == definition.id:
            waiting.is_defined = waiting.created = True
    if definition.is_deleted:
        ask(core)  # so that leaders hear of it
    found_shards(core)


def on_streams_read(core: Core) -> None:
    """Definitions were read again, perhaps because the outcome of a write was unknown."""
    for waiting in list(core.state.waiting):
        message = waiting.message
        if not isinstance(message, CreateStream) or waiting.is_defined:
            continue
        there = core.state.definitions.get(message.definition.name)
        if there is None:
            _create_again(core, waiting, message)
            continue
        try:
            _check_same(message.definition, there.value)
        except StreamExists as error:
            core.refuse(waiting, error)
            continue
        waiting.is_defined = True
        waiting.created = there.value.id == message.definition.id


def _create_again(core: Core, waiting: Waiting, message: CreateStream) -> None:
    """What was asked for is not there, at least not any more."""
    if core.state.fence is None:
        return  # when the term is raised it is looked at once more
    try:
        _check_free(core, message.definition.name)
        fence = _checked_fence(core, message)
    except (StreamExists, MapTooOld) as error:
        core.refuse(waiting, error)
        return
    if not core.is_asked(CallKind.PUT_STREAM, message.definition.name):
        _put_definition(core, message.definition, fence)


def found_shards(core: Core) -> None:
    """Begin what is defined and not there yet, as soon as there are nodes to place it on."""
    state = core.state
    if not state.is_loaded or not core.is_settled:
        return
    load = None
    for name in sorted(state.definitions):
        definition = state.definitions[name].value
        if definition.is_deleted:
            continue
        for shard in shard_names(definition):
            if shard in state.shards:
                continue
            load = core.load() if load is None else load
            replicas = definition.replicas or min(core.config.replicas, len(load.replicas))
            ensemble = new_ensemble(load, replicas)
            if ensemble is None:
                return
            load.place(ensemble)
            control = state.shards[shard] = core.new_control(shard, name)
            control.preferred, control.is_founded = ensemble[0], True
            metadata = ShardMetadata(
                shard, Epoch(1), ShardStatus.ELECTION, None, ensemble, len(ensemble), is_new=True
            )
            core.note_shard("founds", control, " ".join(ensemble))
            save(core, control, metadata, Phase.FENCING)
    if load is not None:
        ask(core)


def settle_creation(core: Core, waiting: Waiting, message: CreateStream) -> None:
    """Answer once every shard has a leader, and has heard whether clocks are shown."""
    definition = core.state.definitions.get(message.definition.name)
    if not waiting.is_defined or definition is None:
        return
    if definition.value.is_deleted:
        core.refuse(
            waiting, StreamExists(f"the stream {message.definition.name!r} is being deleted")
        )
        return
    controls = [core.state.shards.get(shard) for shard in shard_names(definition.value)]
    if all(c and c.metadata and c.metadata.leader and has_obeyed(core, c) for c in controls):
        place = place_of(core, definition)
        core.answer(waiting, StreamCreated(message.request, waiting.created, place))


def ask(core: Core) -> None:
    """Ask all data nodes how they are."""
    state = core.state
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
            core.send(node.id, message)


def may_begin(core: Core, control: ShardControl) -> bool:
    """Whether all clocks are known that were handed out before the shard came to be known."""
    state = core.state
    for node in state.nodes.values():
        if node.has_data and not node.is_dead and node.round < control.creation_round:
            return False
    if core.now_ns - control.since_ns >= core.config.creation_ms * NS_PER_MS:
        return True  # V2
    if control.creation_round <= state.created_round:
        return True
    unknown = [
        other
        for other in state.shards.values()
        if other is not control and not _is_known(core, other, control.creation_round)
    ]
    if not unknown:
        state.created_round = control.creation_round
    return not unknown


def _is_known(core: Core, other: ShardControl, since_round: int) -> bool:
    """V1, for one shard. One that is new has handed out nothing, and one that is deleted has no readers.

    Nor has one that was founded with the new shard, or after it, handed out anything before.
    """
    known = other.metadata
    if known is None or known.is_new or known.status is ShardStatus.DELETING:
        return True
    if other.is_founded and other.creation_round >= since_round:
        return True
    told = [node for node in known.ensemble if _has_told(core.node(node), other.shard, since_round)]
    return 2 * len(told) > len(known.ensemble)


def _has_told(node: NodeState | None, shard: ShardName, since_round: int) -> bool:
    if node is None or not node.is_alive or node.round < since_round:
        return False
    report = node.reports.get(shard)
    return report is not None and report.is_whole and report.status != RECOVERING
