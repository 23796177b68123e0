"""Normal operation: a request becomes a prepare, is replicated along a chain, and is acknowledged.

The primary gives each request its op, its timestamp and its parent, and sends the prepare to the first
backup of a *route*; each backup writes it, passes it on, and acknowledges to the primary. A backup that
does not acknowledge within a heartbeat is *suspected*: what it misses is sent to it directly, and the
chain goes round it until it keeps up again. Where the others are a quorum what it does not acknowledge is
committed before that: so one that has not acknowledged what the last heartbeat told of is suspected as well.
Else whoever comes behind it in the chain would get nothing, for as long as it is gone.

N1  At most ``pipeline_max`` prepares are under way; what comes beyond that waits in a bounded queue.
N2  A prepare_ok is sent only for a prepare on disk, in a view that is on disk.
N3  Timestamps rise strictly with ops.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.vsr import clock
from motet.core.vsr.clients import evict, forward_request, resend_reply
from motet.core.vsr.context import Core
from motet.core.vsr.header import Header, checksum, sealed
from motet.core.vsr.messages import Prepare, PrepareOk, Request, request_checksum
from motet.core.vsr.sessions import Decision
from motet.core.vsr.state import InFlight, Queued, Status
from motet.core.vsr.storage import keep_prepare, write_prepare
from motet.ids import ClientId, Op, ReplicaIndex
from motet.limits import timestamp_ns_max

# Requests


def on_request(core: Core, message: Request, through: ReplicaIndex | None) -> None:
    """A client wants something done, directly or through a backup."""
    state = core.state
    if state.status is not Status.NORMAL or message.view > state.view:
        core.drop("request_out_of_view")
    elif len(message.body) > core.config.body_bytes_max:
        evict(core, message.client, Decision.EVICT_BAD_BODY_SIZE)
    elif message.checksum != request_checksum(message, body_checksum := checksum(message.body)):
        core.drop("request_checksum")
    elif core.is_primary:
        _take_request(core, Queued(message, body_checksum, through))
    elif through is None:
        forward_request(core, message)
    else:
        core.drop("request_to_backup")


def _take_request(core: Core, queued: Queued) -> None:
    state, message = core.state, queued.request
    if not clock.is_synchronized(core):
        core.drop("request_clock")
        return
    if state.commit_min < state.commit_max:
        core.drop("request_behind")  # sessions are not up to date before everything is executed
        return
    in_pipeline = _is_under_way(core, message.client)
    decision = state.sessions.decide(core.config, message, is_preparing=in_pipeline)
    if decision is Decision.ACCEPT and not core.has_room:
        core.drop("request_grid_full")
    elif decision is Decision.ACCEPT:
        _enqueue(core, queued)
    elif decision is Decision.REPLY_AGAIN:
        resend_reply(core, message.client, queued.through)
    elif decision.is_eviction:
        evict(core, message.client, decision)
    else:
        core.drop(f"request_{decision.value}")


def _is_under_way(core: Core, client: ClientId) -> bool:
    for prepare in core.state.pipeline.values():
        if prepare.header.client == client:
            return True
    return any(queued.request.client == client for queued in core.state.queue)


def _enqueue(core: Core, queued: Queued) -> None:
    state = core.state
    if len(state.queue) >= core.config.queue_max:
        core.drop("request_queue_full")
        return
    state.queue.append(queued)


def prepare_queued(core: Core) -> None:
    """Begin what the pipeline has room for (N1)."""
    state = core.state
    if not core.is_primary or not core.is_view_durable or state.is_disk_full:
        return
    while state.queue and len(state.pipeline) < core.config.pipeline_max:
        if state.op + 1 > core.op_prepare_max:
            core.note("prepare_waits_for_checkpoint")
            return
        wall_ns = clock.cluster_wall_ns(core)
        if wall_ns is None:
            return
        timestamp = max(wall_ns, state.timestamp + 1)
        if timestamp > timestamp_ns_max:
            core.note("timestamps_exhausted", str(timestamp))
            return
        queued = state.queue.pop(0)
        request = queued.request
        header = _next_header(core, queued, timestamp)
        _begin_prepare(core, header, request.body, queued.through)


def _next_header(core: Core, queued: Queued, timestamp: int) -> Header:
    state, head, request = core.state, core.head, queued.request
    assert timestamp > head.timestamp, "N3"
    return sealed(
        Header(
            cluster=core.config.cluster,
            epoch=head.epoch,
            view=state.view,
            op=Op(state.op + 1),
            commit=state.commit_max,
            parent=head.checksum,
            timestamp=timestamp,
            client=request.client,
            session=request.session,
            request=request.request,
            request_checksum=request.checksum,
            release=request.release,
            operation=request.operation,
            body_checksum=queued.body_checksum,
            body_bytes=len(request.body),
            checkpoint_id=core.checkpoint_id,
        )
    )


def _begin_prepare(core: Core, header: Header, body: bytes, through: ReplicaIndex | None) -> None:
    state = core.state
    if not state.pipeline:
        state.heard_ok_monotonic_ns = core.now.monotonic_ns
    state.op, state.timestamp = header.op, header.timestamp
    in_flight = InFlight(header, {}, core.now.monotonic_ns, through)
    state.pipeline[header.op] = in_flight
    keep_prepare(core, header, body)
    _start_chain(core, header, body)


# The chain


def _start_chain(core: Core, header: Header, body: bytes) -> None:
    suspects, route = core.state.suspects, core.ring
    if suspects:
        route = tuple(backup for backup in core.ring if backup not in suspects)
    _pass_on(core, header, body, route)
    for backup in core.ring if suspects else ():
        if backup in suspects:
            core.send(backup, _prepare(core, header, body))


def _pass_on(core: Core, header: Header, body: bytes, route: tuple[ReplicaIndex, ...]) -> None:
    if route:
        core.send(route[0], _prepare(core, header, body, route[1:]))


def _prepare(
    core: Core, header: Header, body: bytes, route: tuple[ReplicaIndex, ...] = ()
) -> Prepare:
    return Prepare(core.config.cluster, core.own, core.state.view, header, body, route)


def suspect_who_lags(core: Core) -> None:
    """What the last heartbeat said is committed has long been prepared: who has not acknowledged it?"""
    state = core.state
    for peer in core.peers:
        if state.acknowledged.get(peer, 0) < state.commit_told:
            _suspect(core, peer)


def _suspect(core: Core, backup: ReplicaIndex) -> None:
    if backup not in core.state.suspects:
        core.note("link_bypassed", f"replica {backup}")
        core.state.suspects[backup] = None


def resend_prepares(core: Core) -> None:
    """A heartbeat has passed: send what is not acknowledged to whoever has not acknowledged it."""
    state = core.state
    patience_ns = core.config.timeouts.heartbeat_ms * NS_PER_MS
    for op in sorted(state.pipeline):
        in_flight = state.pipeline[op]
        if core.now.monotonic_ns - in_flight.sent_monotonic_ns < patience_ns:
            continue
        in_flight.sent_monotonic_ns = core.now.monotonic_ns
        missing = [peer for peer in core.peers if peer not in in_flight.oks]
        cached = state.journal.cached(in_flight.header)
        for peer in missing:
            _suspect(core, peer)
            if cached is not None:
                core.send(peer, _prepare(core, cached.header, cached.body))


# Backups


def on_prepare(core: Core, message: Prepare) -> None:
    """A prepare from the primary or along the chain; or once more, because we were not heard."""
    state, header = core.state, message.header
    if not core.is_backup or message.view != state.view:
        core.drop("prepare_out_of_view")
    elif state.journal.has(header):
        _take_prepare(core, message)
    elif header.op <= core.checkpoint_op:
        send_prepare_ok(core, header)
    elif header.view != state.view:
        core.drop("prepare_out_of_view")  # an older op of this log comes through repair
    elif header.op > core.op_prepare_max:
        core.drop("prepare_beyond_log")  # our checkpoint is late; that of the next may not be
        _pass_on(core, header, message.body, _valid_route(core, message.route))
        core.hear_commit(header.commit)
    elif _has_another(core, header):
        core.drop("prepare_of_another_log")
    else:
        _extend_log(core, header)
        _take_prepare(core, message)


def _has_another(core: Core, header: Header) -> bool:
    """One op has one prepare in one view."""
    known = core.state.journal.header(header.op)
    return known is not None and known.view == core.state.view


def _extend_log(core: Core, header: Header) -> None:
    state = core.state
    if header.op > state.op:
        is_next = header.op == state.op + 1 and header.parent == core.head.checksum
        state.op = header.op
        if not is_next:
            state.connected_op = header.op
    state.timestamp = max(state.timestamp, header.timestamp)


def _take_prepare(core: Core, message: Prepare) -> None:
    header = message.header
    _pass_on(core, header, message.body, _valid_route(core, message.route))
    core.hear_commit(header.commit)
    if core.state.journal.has(header) and core.state.journal.is_clean(header.op):
        send_prepare_ok(core, header)
    else:
        keep_prepare(core, header, message.body)


def _valid_route(core: Core, route: tuple[ReplicaIndex, ...]) -> tuple[ReplicaIndex, ...]:
    if not route:
        return route
    count = core.config.count
    return tuple([each for each in route[:count] if 0 <= each < count and each != core.own])


def send_prepare_ok(core: Core, header: Header) -> None:
    """Acknowledge a prepare that is on disk (N2)."""
    state = core.state
    is_kept = state.journal.has(header) and state.journal.is_clean(header.op)
    if is_kept or header.op <= core.checkpoint_op:  # what is in a checkpoint is kept there
        acknowledge(core, header)


def acknowledge(core: Core, header: Header) -> None:
    """Say to the primary that this prepare is on disk, which the caller knows."""
    state = core.state
    if state.status is not Status.NORMAL or not core.is_view_durable or core.is_syncing:
        return
    primary = core.primary
    if primary == core.own:
        _take_prepare_ok(core, core.own, header)
        return
    ok = PrepareOk(
        core.config.cluster,
        core.own,
        state.view,
        header.op,
        header.checksum,
        core.checkpoint_op,
        core.checkpoint_id,
        state.awaits_commits,
    )
    core.send(primary, ok)


def send_all_prepare_oks(core: Core) -> None:
    """Acknowledge all that a new primary may need, even what is committed here already."""
    state = core.state
    lowest = max(min(state.commit_min, state.op - core.config.pipeline_max), 0)
    for op in range(lowest + 1, state.op + 1):
        header = state.journal.header(Op(op))
        if header is not None:
            send_prepare_ok(core, header)
            write_prepare(core, header)


# Acknowledgements


def on_prepare_ok(core: Core, message: PrepareOk) -> None:
    state = core.state
    if not core.is_primary or message.view != state.view:
        core.drop("prepare_ok_out_of_view")
        return
    _note_acknowledged(core, message)
    state.heard_ok_monotonic_ns = core.now.monotonic_ns
    if message.awaits_commit:
        state.awaiting.setdefault(message.replica, Op(0))
    else:
        state.awaiting.pop(message.replica, None)
    in_flight = state.pipeline.get(message.op)
    if in_flight is None or in_flight.header.checksum != message.prepare:
        core.drop("prepare_ok_of_another")
        return
    _take_prepare_ok(core, message.replica, in_flight.header)


def _note_acknowledged(core: Core, message: PrepareOk) -> None:
    """A backup keeps up again; one that acknowledges what it repairs does not yet."""
    state, backup = core.state, message.replica
    if message.op >= state.commit_told:
        state.suspects.pop(backup, None)
    if message.op > state.acknowledged.get(backup, 0):
        state.acknowledged[backup] = Op(min(message.op, state.op))


def _take_prepare_ok(core: Core, replica: ReplicaIndex, header: Header) -> None:
    in_flight = core.state.pipeline.get(header.op)
    if in_flight is not None and in_flight.header.checksum == header.checksum:
        in_flight.oks[replica] = None


def committed_by_quorum(core: Core) -> Op:
    """Up to where a replication quorum has everything on disk, in order."""
    pipeline, enough = core.state.pipeline, core.quorums.replication
    commit = core.state.commit_max
    while (following := pipeline.get(Op(commit + 1))) is not None and len(following.oks) >= enough:
        commit = following.header.op
    return commit
