"""Both sides of ZooKeeper's wire: requests, replies and events, into bytes and out of them.

W1  A reply with an error is its header and nothing else. Clients count.
W2  A multi that failed is no error but a result: the header says 0, and each of its operations has an error
    of its own in the place of a result.
W3  The xid of a reply is that of its request, also for pings (-2) and auths (-4). An event has the xid and
    the zxid -1.
W4  What a request has after its fields is left alone: clients newer than us may have more to say.
W5  An operation that we do not have is ``Unknown``, and so is a multi with one in it, for where that one
    ends cannot be known. The client is answered; only bytes that make no sense are ``BadFrame``.
W6  A reply does not say what it answers: a client looks up its request by the xid in the header, and reads
    the result as the result of that. It reads to the last byte: one too many means that it has misunderstood,
    and ``BadFrame`` that the connection is to be closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from motet.errors import BadFrame
from motet.format.zookeeper import jute
from motet.format.zookeeper.messages import (
    OPCODES,
    AclResult,
    AnyResult,
    Auth,
    Check,
    Children,
    Children2,
    CloseSession,
    Create,
    Create2,
    Created,
    Created2,
    Data,
    Delete,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    MultiResult,
    Nothing,
    Ping,
    Request,
    Result,
    SetAcl,
    SetData,
    SetWatches,
    StatResult,
    Sync,
    Synced,
    Unknown,
    WatchEvent,
)
from motet.format.zookeeper.records import (
    EVENT_BODY,
    EVENT_XID,
    MULTI_END,
    MULTI_FAILED,
    MULTI_HEADER,
    MULTIS,
    REPLY_HEADER,
    REQUEST_HEADER,
    REQUESTS,
    STATE_CONNECTED,
    AnyRequest,
    read_record,
    write_record,
)


class Reply(msgspec.Struct, frozen=True):
    """An answer with its address; ``request`` as in :func:`encode_reply`."""

    xid: int
    zxid: int
    error: int
    result: AnyResult
    request: Request | None = None


# Requests

_WRITES = {OPCODES[kind]: kind for kind in (Create, Create2, Delete, SetData, Check)}
_READS = {OPCODES[kind]: kind for kind in (GetData, GetChildren)}


def decode_request(payload: bytes) -> tuple[int, AnyRequest]:
    """The xid and what is asked."""
    xid, opcode = jute.unpack(REQUEST_HEADER, payload, 0)
    kind = REQUESTS.get(opcode)
    if kind is None:
        return xid, Unknown(opcode)
    if kind is Multi:
        return xid, _decode_operations(Multi, _WRITES, payload)
    if kind is MultiRead:
        return xid, _decode_operations(MultiRead, _READS, payload)
    return xid, read_record(kind, payload, REQUEST_HEADER.size)[0]


def _decode_operations(
    kind: type[Multi | MultiRead], allowed: Mapping[int, type[Request]], payload: bytes
) -> Multi | MultiRead | Unknown:
    operations: list[Any] = []
    at = REQUEST_HEADER.size
    while True:
        opcode, is_end, _ = jute.unpack(MULTI_HEADER, payload, at)
        if is_end:
            return kind(tuple(operations))
        operation_kind = allowed.get(opcode)
        if operation_kind is None:
            return Unknown(opcode)
        operation, at = read_record(operation_kind, payload, at + MULTI_HEADER.size)
        operations.append(operation)


# Replies

_RESULT_OPCODES: dict[type[Result], int] = {
    Created: OPCODES[Create],
    Created2: OPCODES[Create2],
    StatResult: OPCODES[SetData],
    Nothing: OPCODES[Delete],
    Data: OPCODES[GetData],
    Children: OPCODES[GetChildren],
}
"""Whose result it is in a multi. Nothing may also be of a check, which only its request can tell."""


def encode_reply(
    xid: int, zxid: int, error: int, result: AnyResult, request: Request | None = None
) -> bytes:
    """One reply with its length. Without the request, a check in a multi is answered as a delete is: the
    same but for its opcode, at which few clients look."""
    return jute.framed(*_reply(xid, zxid, error, result, request))


def encode_event(event: WatchEvent) -> bytes:
    """One event with its length."""
    return jute.framed(*_event(event))


def encode_replies(many: Iterable[Reply | WatchEvent]) -> bytes:
    """All of them, in their order."""
    parts: list[bytes] = []
    for one in many:
        if isinstance(one, WatchEvent):
            header, body = _event(one)
        else:
            header, body = _reply(one.xid, one.zxid, one.error, one.result, one.request)
        parts += (jute.write_int(len(header) + len(body)), header, body)
    return b"".join(parts)


def _reply(
    xid: int, zxid: int, error: int, result: AnyResult, request: Request | None
) -> tuple[bytes, bytes]:
    if isinstance(result, Failed):
        error = error or result.error
    header = jute.pack(REPLY_HEADER, xid, zxid, error)
    if error or isinstance(result, Failed):
        return header, b""
    if isinstance(result, MultiResult):
        return header, _multi_body(result, request)
    return header, write_record(result)


def _event(event: WatchEvent) -> tuple[bytes, bytes]:
    header = jute.pack(REPLY_HEADER, EVENT_XID, -1, 0)
    body = jute.pack(EVENT_BODY, event.type, STATE_CONNECTED)
    return header, body + jute.write_string(event.path)


def _multi_body(result: MultiResult, request: Request | None) -> bytes:
    parts: list[bytes] = []
    for one, opcode in zip(result.results, _opcodes(result, request), strict=True):
        if isinstance(one, Failed):
            header = jute.pack(MULTI_HEADER, MULTI_FAILED, False, one.error)
            parts += (header, jute.write_int(one.error))
        else:
            parts += (jute.pack(MULTI_HEADER, opcode, False, 0), write_record(one))
    return b"".join((*parts, MULTI_END))


def _opcodes(result: MultiResult, request: Request | None) -> list[int]:
    """Of the operations of a multi; of those that failed nobody asks."""
    if isinstance(request, MULTIS):
        assert len(request.operations) == len(result.results), "a result for each operation"
        return [OPCODES[type(operation)] for operation in request.operations]
    return [_RESULT_OPCODES.get(type(one), MULTI_FAILED) for one in result.results]


RESULTS: dict[type[Request], type[Result]] = {
    Create: Created,
    Create2: Created2,
    Delete: Nothing,
    SetData: StatResult,
    SetAcl: StatResult,
    Check: Nothing,
    Exists: StatResult,
    GetData: Data,
    GetAcl: AclResult,
    GetChildren: Children,
    GetChildren2: Children2,
    Sync: Synced,
    Ping: Nothing,
    Auth: Nothing,
    SetWatches: Nothing,
    CloseSession: Nothing,
    Unknown: Nothing,
}
"""What the answer to each request is when it is no error."""


class ReplyHeader(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """In front of every reply and event; whose it is, as of when, and whether it went wrong."""

    xid: int
    zxid: int
    error: int


def encode_request(xid: int, request: Request) -> bytes:
    """One request with its length."""
    opcode = request.opcode if isinstance(request, Unknown) else OPCODES[type(request)]
    return jute.framed(jute.pack(REQUEST_HEADER, xid, opcode), _request_body(request))


def _request_body(request: Request) -> bytes:
    if isinstance(request, Unknown):
        return b""
    if not isinstance(request, MULTIS):
        return write_record(request)
    parts: list[bytes] = []
    for operation in request.operations:
        header = jute.pack(MULTI_HEADER, OPCODES[type(operation)], False, -1)
        parts += (header, write_record(operation))
    return b"".join((*parts, MULTI_END))


def decode_reply_header(payload: bytes) -> ReplyHeader:
    """``EVENT_XID`` says that it is an event; otherwise the xid says which request this answers."""
    return ReplyHeader(*jute.unpack(REPLY_HEADER, payload, 0))


def decode_result(request: Request, payload: bytes) -> AnyResult:
    """What the server answers to this request; ``payload`` is the whole message with its header."""
    result: AnyResult
    error = decode_reply_header(payload).error
    at = REPLY_HEADER.size
    if error:
        result = Failed(error)
    elif isinstance(request, MULTIS):
        result, at = _read_results(request, payload, at)
    else:
        result, at = read_record(RESULTS[type(request)], payload, at)
    jute.check_end(payload, at)
    return result


def _read_results(request: Multi | MultiRead, payload: bytes, at: int) -> tuple[MultiResult, int]:
    results = []
    for operation in request.operations:
        result, at = _read_result(operation, payload, at)
        results.append(result)
    _, is_end, _ = jute.unpack(MULTI_HEADER, payload, at)
    if not is_end:
        raise BadFrame(f"more results than the {len(results)} operations of a multi")
    return MultiResult(tuple(results)), at + MULTI_HEADER.size


def _read_result(operation: Request, payload: bytes, at: int) -> tuple[Any, int]:
    opcode, is_end, _ = jute.unpack(MULTI_HEADER, payload, at)
    at += MULTI_HEADER.size
    if is_end:
        raise BadFrame("fewer results than the operations of a multi")
    if opcode == MULTI_FAILED:
        error, at = jute.read_int(payload, at)
        return Failed(error), at
    kind = RESULTS[type(operation)]
    if kind is Created2 and opcode == OPCODES[Create]:
        kind = Created  # ZooKeeper answers a create2 within a multi as a create
    elif RESULTS.get(REQUESTS.get(opcode, Multi)) is not kind:
        raise BadFrame(f"a result of opcode {opcode} for a {type(operation).__name__}")
    return read_record(kind, payload, at)


def decode_event(payload: bytes) -> WatchEvent:
    """What happened to a node that was watched."""
    if decode_reply_header(payload).xid != EVENT_XID:
        raise BadFrame("a reply in the place of an event")
    type_, _state = jute.unpack(EVENT_BODY, payload, REPLY_HEADER.size)
    path, at = jute.read_string(payload, REPLY_HEADER.size + EVENT_BODY.size)
    jute.check_end(payload, at)
    return WatchEvent(type_, path)
