"""The session with the keeper: watches, standing for the office of the operator, and answers to requests.

C1  With every session the operator sets its watches and stands for election anew; what it is told under an
    earlier session does not count.
C2  It is active from the moment its entry is the oldest until the session ends, or the entry is deleted.
    Others may believe the same of themselves: every write is a compare-and-set.
C3  A watch or a candidacy that could not be entered is asked for again.
C4  What is watched is read after the watch is set: what changed before that is told by nobody.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS, Send
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    Conflict,
    Failed,
    Found,
    MetadataAnswer,
    ReadDone,
    SessionOver,
    Stand,
    Standing,
    Unknown,
    Watch,
    Watching,
    WatchOf,
    Written,
)
from motet.core.metadata.paths import DRAINS, MAPS, NODES, OPERATORS, SETTINGS, STREAMS
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
from motet.core.operator.loading import WATCHED
from motet.core.operator.state import CallKind, ShardControl, StoreCall
from motet.ids import NodeId, RequestId, SessionId, ShardName, TimerName

CANDIDACY = TimerName("candidacy")


def begin(core: Core, session: SessionId) -> None:
    """A session has begun (C1)."""
    state = core.state
    state.session, state.entering = session, {}
    state.to_enter = dict.fromkeys((*WATCHED, OPERATORS))
    enter(core)


def end(core: Core) -> None:
    """The session is over."""
    core.state.session = NO_SESSION
    core.state.entering, core.state.to_enter = {}, {}
    core.no_timer(CANDIDACY)


def stand_again(core: Core) -> None:
    """Somebody has deleted the entry while the session lasts."""
    core.state.to_enter[OPERATORS] = None
    enter(core)


def enter(core: Core) -> None:
    """Ask for everything that has not been entered."""
    state = core.state
    wanted, state.to_enter = state.to_enter, {}
    for path in wanted:
        request = core.next_request()
        state.entering[request] = path
        if path == OPERATORS:
            message: Stand | Watch = Stand(request, state.session, path, state.own)
        else:
            # An entry of a node never changes, it is replaced.
            of = WatchOf.CHILDREN if path == NODES else WatchOf.BELOW
            message = Watch(request, state.session, path, of)
        core.effects.append(Send(METADATA, message))


def _on_entered(core: Core, message: MetadataAnswer) -> bool:
    """Whether it was about a watch or the candidacy."""
    path = core.state.entering.pop(RequestId(message.request), None)
    if path is None:
        return False
    if isinstance(message, Watching):
        if core.state.is_active:
            core.state.dirty[path] = None  # C4
    elif not isinstance(message, Standing):  # C3
        core.state.to_enter[path] = None
        core.timer(CANDIDACY, core.config.retry_ms_max)
    return True


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
    if _on_entered(core, message) or not core.state.is_active:
        return
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
    paths = call.paths if call.kind is CallKind.READ_CLUSTER else REREAD.get(call.kind)
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


def expire_calls(core: Core) -> None:
    """A keeper that says nothing has said that it does not know."""
    oldest_ns = core.now_ns - core.config.store_ms * NS_PER_MS
    late = [request for request, call in core.state.calls.items() if call.asked_ns < oldest_ns]
    for request in late:
        on_answer(core, Unknown(RequestId(request)))
