"""The client's side of ZooKeeper's wire: requests into bytes, replies and events out of bytes.

A reply does not say what it is the answer to: its xid does, to whoever has kept the request. So a client
reads the header first, looks up what it asked, and reads the result as the result of that.

Unlike a server, which lets newer clients say more than it knows, a client reads a reply to its last byte:
one too many means that it has misunderstood, and ``BadFrame`` that the connection is to be closed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.errors import BadFrame
from motet.format.zookeeper import jute
from motet.format.zookeeper.answers import (
    AclResult,
    AnyResult,
    Children,
    Children2,
    Created,
    Created2,
    Data,
    Failed,
    MultiResult,
    Nothing,
    Result,
    StatResult,
    Synced,
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
    read_record,
    write_record,
)
from motet.format.zookeeper.requests import (
    OPCODES,
    Auth,
    Check,
    CloseSession,
    Create,
    Create2,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    Ping,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    Unknown,
)

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
