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
"""

from __future__ import annotations

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
    Phase,
    StoreCall,
    WaitingClient,
)
from motet.core.operator.writing import save
from motet.core.placement.choosing import new_ensemble
from motet.core.streams.cluster_messages import (
    CreateStream,
    ShardMetadata,
    ShardStatus,
    StreamCreated,
)
from motet.errors import BadInput, StreamExists, TooLarge
from motet.errors.operator import MapTooOld, NoNodeToPlaceOn, NotActive
from motet.ids import Epoch, StreamName
from motet.limits import streams_max


def create_stream(core: Core, waiting: WaitingClient, message: CreateStream) -> None:
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
        core.ask_nodes()  # so that leaders hear of it
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


def _create_again(core: Core, waiting: WaitingClient, message: CreateStream) -> None:
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
        core.ask_nodes()


def settle_creation(core: Core, waiting: WaitingClient, message: CreateStream) -> None:
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
