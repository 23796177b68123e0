"""Deleting a stream: marked first, then its shards go from all nodes and from the store, then it goes.

D1  A shard is deleted in an epoch of its own, which no leader has. The store says DELETING, and who may hold
    data of it, before the first node is told; and forgets the shard when the last one has answered.
D2  The definition goes last: as long as it is there, marked, an operator goes on with this, and its name
    cannot be used again. With it the fence rises, so that it is not brought back (G1). Who asks names the
    id of the stream: a request that comes late or twice leaves the next one of its name alone.
D3  A fence that comes after all that makes an empty replica again. Who says so is told to delete it, when the
    store has been read after it was said, and has no stream with that shard: names of shards are never used
    again. What is not empty stays: garbage before loss.
D4  It stops at a shard with transactions: its leader is told to take no more of them, and it is deleted when
    that leader, in the present epoch, has none that is prepared and not decided, and none that it has
    decided and that is not logged everywhere. So a transaction that is still open elsewhere when its home is
    gone was not committed, and never will be: who misses a shard is told that it has been deleted, when
    that is certain as in D3.
D5  A shard that is lost (N5) can never say that. It is deleted without it: what was decided there and logged
    nowhere else is lost with the shard, and counts as not committed.
D6  No node deletes on one word: the shard map that it has is of the operator that tells it to, and places
    the shard elsewhere or nowhere. What comes before that map is not obeyed, and said again.
"""

from __future__ import annotations

import msgspec

from motet.core.metadata.definitions import encode_stream_definition, shard_names
from motet.core.metadata.messages import Set
from motet.core.metadata.paths import MAP_TERM, STREAMS, stream_path
from motet.core.operator.context import Core
from motet.core.operator.shard_map import encode_term
from motet.core.operator.state import (
    CallKind,
    Definition,
    NodeState,
    Phase,
    Retry,
    ShardControl,
    StoreCall,
    WaitingClient,
)
from motet.core.operator.writing import forget, save
from motet.core.shardlog.messages import DeleteShardRequest, DeleteShardResponse
from motet.core.streams.cluster_messages import (
    DeleteStream,
    OperatorDone,
    SealedShard,
    ShardsGone,
    ShardStatus,
)
from motet.errors import NoSuchStream
from motet.ids import Epoch, LogName, NodeId, ShardName, StreamName
from motet.limits import missing_shards_max

_BUSY = (Phase.LOADING, Phase.WRITING, Phase.DELETING, Phase.FORGETTING)


def delete_stream(core: Core, _waiting: WaitingClient, message: DeleteStream) -> None:
    """Mark the definition."""
    definition = _meant(core, message)
    if definition is None:
        of_that_id = f" with the id {message.id}" if message.name in core.state.definitions else ""
        raise NoSuchStream(f"there is no stream {message.name!r}{of_that_id}")
    _mark(core, definition)


def _meant(core: Core, message: DeleteStream) -> Definition | None:
    definition = core.state.definitions.get(message.name)
    return definition if definition is not None and definition.value.id == message.id else None


def _mark(core: Core, definition: Definition) -> None:
    value = definition.value
    if value.is_deleted or core.is_asked(CallKind.PUT_STREAM, value.name):
        return
    marked = msgspec.structs.replace(value, is_deleted=True)
    data = encode_stream_definition(marked)
    call = StoreCall(CallKind.PUT_STREAM, core.now_ns, about=value.name, definition=marked)
    core.put(stream_path(value.name), data, definition.version, call)


def settle_deletion(core: Core, waiting: WaitingClient, message: DeleteStream) -> None:
    """Answer when nothing is left; mark again what an unknown outcome has left unmarked."""
    definition = _meant(core, message)
    if definition is None:
        core.answer(waiting, OperatorDone(message.request, f"{message.name} is deleted"))
    else:
        _mark(core, definition)


def delete_marked(core: Core) -> None:
    """Go on with the streams that are marked."""
    for name in sorted(core.state.definitions):
        definition = core.state.definitions[name]
        if definition.value.is_deleted:
            _delete_shards(core, name, definition)


def _delete_shards(core: Core, name: StreamName, definition: Definition) -> None:
    controls = [core.state.shards.get(shard) for shard in shard_names(definition.value)]
    there = [control for control in controls if control is not None]
    for control in there:
        if control.phase in _BUSY:
            continue
        if control.known.is_new or control.is_lost:  # nobody has led it, or ever will again (D5)
            _begin(core, control)
    if not there and not core.is_asked(CallKind.FORGET_STREAM):
        _forget_stream(core, name, definition)


def _forget_stream(core: Core, name: StreamName, definition: Definition) -> None:
    """D2; one at a time, since each raises the fence."""
    state, fence = core.state, core.state.fence
    if fence is None:
        return  # when the term is raised
    call = StoreCall(CallKind.FORGET_STREAM, core.now_ns, about=name, fence=fence)
    raised = Set(MAP_TERM, encode_term(state.term, state.cluster), fence)
    core.delete(stream_path(name), definition.version, call, raised)


def take_sealed(core: Core, sender: NodeId, sealed: tuple[SealedShard, ...]) -> None:
    """A leader takes no more transactions: delete the shard if none is open (D4)."""
    for each in sealed:
        control = core.state.shards.get(each.shard)
        if control is None or control.phase is not Phase.STEADY:
            continue
        definition = core.state.definitions.get(control.stream)
        if definition is None or not definition.value.is_deleted:
            continue
        known = control.known
        if known.leader != sender or known.epoch != each.epoch:
            continue
        if not each.unsettled:
            _begin(core, control)
        elif each.unsettled != control.unsettled:
            core.note_shard("deletion_waits", control, f"{each.unsettled} transactions")
        control.unsettled = each.unsettled


def _begin(core: Core, control: ShardControl) -> None:
    """D1."""
    known, change = control.known, control.known.reconfiguration
    more = () if change is None or change.new_node is None else (change.new_node,)
    holders = dict.fromkeys((*known.removed_nodes, *more))
    core.note_shard("deletes", control)
    metadata = msgspec.structs.replace(
        known,
        epoch=Epoch(max(known.epoch, control.node_epoch) + 1),
        status=ShardStatus.DELETING,
        leader=None,
        reconfiguration=None,
        removed_nodes=tuple(sorted(node for node in holders if node not in known.ensemble)),
    )
    save(core, control, metadata, Phase.DELETING)


def begin_deleting(core: Core, control: ShardControl) -> None:
    known = control.known
    if control.node_epoch > known.epoch:  # else whoever is in that epoch would not obey
        above = Epoch(control.node_epoch + 1)
        save(core, control, msgspec.structs.replace(known, epoch=above), Phase.DELETING)
        return
    holders = (*known.ensemble, *known.removed_nodes)
    control.deletions = {node: Retry(core.now_ns) for node in holders}
    control.joins = {}
    keep_deleting(core, control)


def keep_deleting(core: Core, control: ShardControl) -> None:
    for node, retry in control.deletions.items():
        if core.due(retry):
            core.send(node, DeleteShardRequest(LogName(control.shard), control.epoch))
    if not control.deletions:
        forget(core, control)


def on_deleted(
    core: Core, control: ShardControl, sender: NodeId, _message: DeleteShardResponse
) -> None:
    control.deletions.pop(sender, None)
    keep_deleting(core, control)


def on_forgotten(core: Core, control: ShardControl) -> None:
    """The store has nothing of the shard any more."""
    core.note_shard("deleted", control)
    del core.state.shards[control.shard]
    core.state.map_changed = True


def on_stream_forgotten(core: Core, call: StoreCall) -> None:
    name, state = StreamName(call.about), core.state
    core.note("stream_deleted", name)
    state.definitions.pop(name, None)
    state.map_changed = True
    if state.term_version == call.fence:
        state.term_version += 1


# What is left of it


def find_missing(core: Core, node: NodeState, missing: tuple[ShardName, ...]) -> None:
    """Transactions of a node wait for shards that it does not know (D4)."""
    state = core.state
    for gone in [key for key in state.missing if key[0] == node.id and key[1] not in missing]:
        del state.missing[gone]
    if missing and state.is_loaded:
        for shard in missing[:missing_shards_max]:
            state.missing.setdefault((node.id, shard), core.now_ns)
        state.dirty[STREAMS] = None


def find_leftovers(core: Core, node: NodeState) -> None:
    """A node has answered a heartbeat. Does it hold something that is nobody's (D3)?"""
    state = core.state
    held = [
        (node.id, report.shard)
        for report in node.reports.values()
        if report.shard not in state.shards and report.head_index.is_none
    ]
    for gone in [key for key in state.leftovers if key[0] == node.id and key not in held]:
        del state.leftovers[gone]
    if held and state.is_loaded:
        for key in held:
            state.leftovers.setdefault(key, core.now_ns)
        state.dirty[STREAMS] = None


def delete_leftovers(core: Core, call: StoreCall) -> None:
    """All definitions have been read."""
    state = core.state
    if state.bad_definitions:
        return
    defined = {
        shard: None for each in state.definitions.values() for shard in shard_names(each.value)
    }
    for (node, shard), said_ns in list(state.missing.items()):
        if said_ns < call.asked_ns:
            del state.missing[node, shard]
            if shard not in defined:
                core.note("shard_is_gone", f"{shard}, {node} misses it")
                core.send(node, ShardsGone((shard,)))
    for (node, shard), said_ns in list(state.leftovers.items()):
        if said_ns >= call.asked_ns:
            continue  # what was read may be older
        del state.leftovers[node, shard]
        known = state.nodes.get(node)
        report = None if known is None else known.reports.get(shard)
        if report is not None and shard not in defined:
            core.note("leftover", f"{shard} on {node}")
            core.send(node, DeleteShardRequest(LogName(shard), report.epoch))
