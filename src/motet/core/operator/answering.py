"""What the keeper answers, handed to whoever asked."""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS
from motet.core.metadata.messages import (
    Conflict,
    Failed,
    Found,
    MetadataAnswer,
    ReadDone,
    SessionOver,
    Unknown,
    Written,
)
from motet.core.metadata.paths import DRAINS, MAPS, SETTINGS, STREAMS
from motet.core.operator import (
    clock_visibility,
    deletion,
    loading,
    moves,
    shard_map,
    streams,
    writing,
)
from motet.core.operator.context import Core
from motet.core.operator.state import CallKind, ShardControl, StoreCall
from motet.ids import NodeId, RequestId, ShardName

REREAD: dict[CallKind, tuple[str, ...]] = {
    CallKind.PUT_STREAM: (MAPS, STREAMS),
    CallKind.FORGET_STREAM: (MAPS, STREAMS),
    CallKind.PUT_DRAIN: (DRAINS,),
    CallKind.FORGET_DRAIN: (DRAINS,),
    CallKind.PUT_TERM: (MAPS,),
    CallKind.PUT_CLOCK_VISIBILITY: (SETTINGS,),
}
"""What to read again when such a write was not done, or perhaps was."""


def on_answer(core: Core, message: MetadataAnswer) -> None:
    """The end of a call, whatever it is."""
    call = core.state.calls.pop(message.request, None)
    if call is None:
        core.drop("not_asked")
    elif isinstance(message, ReadDone):
        _on_read(core, message, call)
    elif isinstance(message, Written):
        _on_done(core, message, call)
    elif isinstance(message, Conflict | Unknown | Failed | SessionOver):
        _on_not_done(core, message, call)
    else:
        core.drop("unexpected")


def _control(core: Core, call: StoreCall) -> ShardControl | None:
    return core.state.shards.get(ShardName(call.about))


def _on_read(core: Core, message: ReadDone, call: StoreCall) -> None:
    if call.listing is not None:
        call = msgspec.structs.replace(call, listing=call.listing.after(message.results))
        if not loading.go_on_reading(core, call):
            _on_cluster_read(core, call)
        return
    control = _control(core, call)
    if control is None:
        return
    nodes = tuple(each for each in message.results if isinstance(each, Found))
    if control.call == message.request:
        loading.on_shard_read(core, control, call, nodes)
    elif control.is_confirming:
        writing.on_confirmed(core, control, call, nodes[0].stat.version if nodes else None)


def _on_cluster_read(core: Core, call: StoreCall) -> None:
    loading.on_cluster_read(core, call)
    if MAPS in call.paths and core.state.term == 0:
        shard_map.raise_term(core)
    if STREAMS in call.paths:
        streams.on_streams_read(core)
        deletion.delete_leftovers(core, call)
    streams.found_shards(core)


def _on_done(core: Core, message: Written, call: StoreCall) -> None:
    """What counts is the first operation of a write: a create begins with version 0."""
    control = _control(core, call)
    result = message.results[0]
    version = result if isinstance(result, int) else 0
    if call.kind is CallKind.PUT_SHARD:
        if control is not None and control.call == message.request:
            loading.know_nodes(core, control)
            writing.on_saved(core, control, call, version)
    elif call.kind is CallKind.FORGET_SHARD:
        if control is not None and control.call == message.request:
            deletion.on_forgotten(core, control)
    elif call.kind is CallKind.PUT_STREAM:
        streams.on_stream_put(core, call, version)
    elif call.kind is CallKind.FORGET_STREAM:
        deletion.on_stream_forgotten(core, call)
    elif call.kind is CallKind.PUT_DRAIN:
        moves.on_drain_written(core, NodeId(call.about), version)
    elif call.kind is CallKind.FORGET_DRAIN:
        moves.on_drain_forgotten(core, NodeId(call.about))
    elif call.kind is CallKind.PUT_TERM:
        shard_map.on_term_raised(core, call, version)
        streams.on_streams_read(core)
    elif call.kind is CallKind.PUT_CLOCK_VISIBILITY:
        clock_visibility.on_clock_visibility_put(core, call, version)


def _on_not_done(
    core: Core, message: Conflict | Unknown | Failed | SessionOver, call: StoreCall
) -> None:
    """It was not written, or perhaps it was: read what stands there."""
    what = "conflict" if isinstance(message, Conflict) else "unknown_outcome"
    if isinstance(message, Failed | SessionOver):
        what = "store_failed"
    core.note(what, f"{call.kind.value} {call.about}".strip())
    pause_ms = 0 if isinstance(message, Conflict) else core.config.retry_ms
    if call.kind is CallKind.READ_CLUSTER:
        _read_again(core, call, pause_ms)
        return
    paths = REREAD.get(call.kind)
    if paths is not None:
        core.state.dirty.update(dict.fromkeys(paths))
        core.state.read_again_ns = core.in_ms(pause_ms)
        return
    control = _control(core, call)
    if control is None:
        return
    if control.call == message.request:
        writing.load(core, control, after_ms=pause_ms)
    else:
        control.is_confirming = False


def _read_again(core: Core, call: StoreCall, pause_ms: int) -> None:
    state = core.state
    state.dirty.update(dict.fromkeys(call.paths))
    state.read_again_ns = core.in_ms(pause_ms)


def expire_calls(core: Core) -> None:
    """A keeper that says nothing has said that it does not know."""
    oldest_ns = core.now_ns - core.config.store_ms * NS_PER_MS
    late = [request for request, call in core.state.calls.items() if call.asked_ns < oldest_ns]
    for request in late:
        on_answer(core, Unknown(RequestId(request)))
