"""What each request becomes: an operation for the log, and in the end an answer.

A1  An operation speaks for the session and the generation that its connection has.
A2  A read is answered from the state of this replica as it is in this step, and its watch is set in the same
    (T4). Who asks for more watches than there may be is not answered with a read that would not be watched.
A3  A session that is over or was attached elsewhere is told so, and hung up; so is who fails to prove who he
    is. A session that is closed is hung up after its answer.
A4  A handshake is finished only for who speaks for the session by now: it may have ended, or been attached
    elsewhere, after it was attached here.
A5  Watches of before are compared with the state as it is here: what the client has missed fires at once.
    Where it may not look it is told that something has changed, which it will find out when it looks.
"""

from __future__ import annotations

from motet.core.keeper.acl import identity_of
from motet.core.keeper.front.connections import NO_PASSWORD, NO_SESSION, Connection, Entry
from motet.core.keeper.front.context import FrontEndContext
from motet.core.keeper.front.watches import (
    Missed,
    WatchKind,
    is_watch_set,
    missed_child,
    missed_data,
    missed_exists,
    watch_wanted,
)
from motet.core.keeper.ids import Generation
from motet.core.keeper.messages import Answer, Connect, Connected, Happened
from motet.core.keeper.operations import (
    AddIdentity,
    Attached,
    EndSession,
    OpenSession,
    Outcome,
    Reattach,
    Touched,
    WholeOperation,
    Write,
    failed,
)
from motet.format.zookeeper.messages import (
    AnyResult,
    Auth,
    CloseSession,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    Nothing,
    Ping,
    ReadRequest,
    SetWatches,
    StatResult,
    Sync,
    Synced,
    WatchEvent,
    WriteRequest,
)
from motet.format.zookeeper.records import MULTIS, AnyRequest
from motet.ids import SessionId

_OVER = (ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED)
_session_max = (1 << 63) - 1


# Into the log


def operation_of(
    context: FrontEndContext, connection: Connection, request: AnyRequest | Connect
) -> WholeOperation | Outcome:
    """What is to be logged for it; an outcome if there is nothing to log (A1)."""
    session, generation = connection.session, connection.generation
    if isinstance(request, WriteRequest):
        return Write(session, generation, request)
    if isinstance(request, CloseSession):
        return EndSession(session, generation)
    if isinstance(request, Auth):
        identity = identity_of(request.scheme, request.auth, context.config.node_secret_hash)
        if identity is None:
            return failed(context.keeper.zxid, ErrorCode.AUTH_FAILED)
        return AddIdentity(session, generation, identity.scheme, identity.id)
    assert isinstance(request, Connect)
    return _attachment(context, connection, request)


def _attachment(
    context: FrontEndContext, connection: Connection, request: Connect
) -> WholeOperation | Outcome:
    config = context.config
    if request.session == NO_SESSION:
        timeout_ms = min(max(request.timeout_ms, config.timeout_ms_min), config.timeout_ms_max)
        connection.password = context.draw_password()
        return OpenSession(timeout_ms, connection.password)
    is_number = 0 < request.session <= _session_max
    if not is_number or len(request.password) > context.keeper.config.password_bytes_max:
        return Outcome(context.keeper.zxid, ErrorCode.OK, Attached(NO_SESSION, Generation(0), 0))
    connection.password = request.password
    return Reattach(SessionId(request.session), request.password)


# Out of it


def give_answer(context: FrontEndContext, connection: Connection, entry: Entry) -> None:
    """To what was at the head, and whose time has come."""
    request, outcome = entry.request, entry.outcome
    if isinstance(request, Connect):
        assert outcome is not None
        _finish_handshake(context, connection, outcome)
    elif outcome is not None:
        _give_outcome(context, connection, entry, outcome)
    elif isinstance(request, ReadRequest):
        _give_read(context, connection, entry.xid, request)
    elif isinstance(request, SetWatches):
        _give_watches(context, connection, entry.xid, request)
    elif isinstance(request, Sync):
        _answer(context, connection, entry.xid, ErrorCode.OK, Synced(request.path))
    elif isinstance(request, Ping):
        _answer(context, connection, entry.xid, ErrorCode.OK, Nothing())
    else:
        error = ErrorCode.UNIMPLEMENTED
        _answer(context, connection, entry.xid, error, Failed(error))


def _answer(
    context: FrontEndContext, connection: Connection, xid: int, error: int, result: AnyResult
) -> None:
    context.answer(connection, Answer(xid, context.keeper.zxid, error, result))


def _give_outcome(
    context: FrontEndContext, connection: Connection, entry: Entry, outcome: Outcome
) -> None:
    result, request = outcome.result, entry.request
    if isinstance(result, Attached | Touched):  # of another operation: whoever answered is confused
        context.hang_up(connection, "the cluster has answered with something else")
        return
    kept = request if isinstance(request, MULTIS) else None
    context.answer(connection, Answer(entry.xid, outcome.zxid, outcome.error, result, kept))
    if outcome.error in _OVER:  # A3
        context.hang_up(connection, "the session is not this connection's any more")
    elif isinstance(request, CloseSession):
        context.hang_up(connection, "the session is closed")
    elif isinstance(request, Auth) and outcome.error:
        context.hang_up(connection, "the credentials prove nothing")


def _finish_handshake(context: FrontEndContext, connection: Connection, outcome: Outcome) -> None:
    attached = outcome.result
    if outcome.error or not isinstance(attached, Attached):
        context.hang_up(connection, "no session can be had")
        return
    error = context.keeper.refusal(attached.session, attached.generation)  # A4
    if not attached.timeout_ms or error == ErrorCode.SESSION_EXPIRED:
        context.send(connection.address, Connected(0, NO_SESSION, NO_PASSWORD))
        context.hang_up(connection, "there is no such session")
        return
    if error:
        context.hang_up(connection, "the session was attached again")
        return
    other = context.state.connections.of_session(attached.session)
    if other is not None:
        context.hang_up(other, "the session was attached again")
    connection.timeout_ms = attached.timeout_ms
    context.state.connections.speak_for(connection, attached.session, attached.generation)
    context.send(
        connection.address, Connected(attached.timeout_ms, attached.session, connection.password)
    )


# Reads


def _give_read(
    context: FrontEndContext, connection: Connection, xid: int, request: ReadRequest
) -> None:
    keeper, watches = context.keeper, context.state.watches
    error = keeper.refusal(connection.session, connection.generation)
    if error:
        _answer(context, connection, xid, error, Failed(error))
        context.hang_up(connection, "the session is not this connection's any more")
        return
    watch = watch_wanted(request)
    if watch is not None and watches.count >= context.config.watches_max:  # A2
        _answer(context, connection, xid, ErrorCode.SYSTEM_ERROR, Failed(ErrorCode.SYSTEM_ERROR))
        return
    error, result = keeper.read(connection.session, request)
    if watch is not None and is_watch_set(request, error):
        watches.set(*watch, connection.address)
    kept = request if isinstance(request, MULTIS) else None
    context.answer(connection, Answer(xid, keeper.zxid, error, result, kept))


def _give_watches(
    context: FrontEndContext, connection: Connection, xid: int, request: SetWatches
) -> None:
    """A5."""
    wanted = len(request.data) + len(request.exists) + len(request.children)
    if context.state.watches.count + wanted > context.config.watches_max:  # A2
        _answer(context, connection, xid, ErrorCode.SYSTEM_ERROR, Failed(ErrorCode.SYSTEM_ERROR))
        return
    since = request.relative_zxid
    for path in request.data:
        event = missed_data(_look(context, connection, path), since)
        _fire_or_set(context, connection, WatchKind.DATA, path, event)
    for path in request.exists:
        event = missed_exists(_look(context, connection, path))
        _fire_or_set(context, connection, WatchKind.DATA, path, event)
    for path in request.children:
        event = missed_child(_look(context, connection, path), since)
        _fire_or_set(context, connection, WatchKind.CHILD, path, event)
    _answer(context, connection, xid, ErrorCode.OK, Nothing())


def _look(context: FrontEndContext, connection: Connection, path: str) -> Missed:
    error, result = context.keeper.read(connection.session, Exists(path, watch=False))
    if isinstance(result, StatResult):
        return Missed(is_there=True, stat=result.stat)
    return Missed(is_there=error == ErrorCode.NO_AUTH)


def _fire_or_set(
    context: FrontEndContext,
    connection: Connection,
    kind: WatchKind,
    path: str,
    event: EventType | None,
) -> None:
    if event is None:
        context.state.watches.set(kind, path, connection.address)
    else:
        context.send(connection.address, Happened(WatchEvent(event, path)))
