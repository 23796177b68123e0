"""What ZooKeeper's messages are made of: which fields, in which order, for either direction.

Every request is a header of an xid and an opcode, and the fields of its type; every reply a header of xid,
zxid and error, and the fields of its result. In both the fields stand on the wire in the order of the type,
so a table of kinds is all there is to say: servers and clients read and write by the same rows.

A multi is the exception. It has a header in front of each operation or result, and one more that says that
it is done; those are written and read by the codecs themselves.

The handshake: the first message of either side of a connection, which has no header.

A client asks for a session with a timeout, or for the one it had, by number and password. The server gives
it one with the timeout that it grants; a timeout of 0 says that the session is no more.

Old clients end with the password, newer ones add whether a read-only server will do. The old ones count the
bytes of the answer and hang up on one too many, so the answer has that byte if and only if the question had
it: ``read_only`` is None without it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from motet.format.zookeeper import jute
from motet.format.zookeeper.messages import (
    OPCODES,
    Acl,
    AclResult,
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
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    Nothing,
    Ping,
    ReadRequest,
    Request,
    Result,
    SessionRequest,
    SetAcl,
    SetData,
    SetWatches,
    Stat,
    StatResult,
    Sync,
    Synced,
    Unknown,
    WriteRequest,
)

AnyRequest = WriteRequest | ReadRequest | SessionRequest | Unknown

# Headers

EVENT_XID = -1
PING_XID = -2
AUTH_XID = -4
SET_WATCHES_XID = -8

REQUEST_HEADER = struct.Struct(">ii")
"""xid, opcode"""
REPLY_HEADER = struct.Struct(">iqi")
"""xid, zxid, error"""
EVENT_BODY = struct.Struct(">ii")
"""type, state; the path follows"""
MULTI_HEADER = struct.Struct(">i?i")
"""opcode, is it the end, error"""

STATE_CONNECTED = 3
"""The only state in which anything is said about nodes."""

MULTI_FAILED = -1
"""In the place of an opcode: what follows is an error."""
MULTIS = (Multi, MultiRead)
MULTI_END = MULTI_HEADER.pack(-1, True, -1)

REQUESTS: dict[int, type[Request]] = {opcode: kind for kind, opcode in OPCODES.items()}


# Kinds of fields


class Kind(NamedTuple):
    """How a field is read and written."""

    read: jute.Reader[Any]
    write: jute.Writer[Any]


_STAT = struct.Struct(">qqqqiiiqiiq")


def read_stat(data: bytes, at: int) -> tuple[Stat, int]:
    return Stat(*jute.unpack(_STAT, data, at)), at + _STAT.size


def write_stat(stat: Stat) -> bytes:
    return jute.pack(_STAT, *msgspec.structs.astuple(stat))


def _read_acl(data: bytes, at: int) -> tuple[Acl, int]:
    permissions, at = jute.read_int(data, at)
    scheme, at = jute.read_string(data, at)
    identity, at = jute.read_string(data, at)
    return Acl(permissions, scheme, identity), at


def _write_acl(acl: Acl) -> bytes:
    return (
        jute.write_int(acl.permissions) + jute.write_string(acl.scheme) + jute.write_string(acl.id)
    )


def _write_acls(acls: Sequence[Acl]) -> bytes:
    return jute.write_vector(_write_acl, acls)


_OPEN = (Acl(31, "world", "anyone"),)
_OPEN_BYTES = _write_acls(_OPEN)


def _read_acls(data: bytes, at: int) -> tuple[tuple[Acl, ...], int]:
    if data.startswith(_OPEN_BYTES, at):  # nearly always, and half of what a create costs to read
        return _OPEN, at + len(_OPEN_BYTES)
    return jute.read_vector(_read_acl, data, at)


def _read_scheme(data: bytes, at: int) -> tuple[str, int]:
    """In front of the scheme of an auth is an int that nobody uses."""
    _, at = jute.read_int(data, at)
    return jute.read_string(data, at)


def _write_scheme(scheme: str) -> bytes:
    return jute.write_int(0) + jute.write_string(scheme)


_INT = Kind(jute.read_int, jute.write_int)
_LONG = Kind(jute.read_long, jute.write_long)
_BOOL = Kind(jute.read_bool, jute.write_bool)
_BUFFER = Kind(jute.read_buffer, jute.write_buffer)
_DATA = Kind(jute.read_data, jute.write_data)
_STRING = Kind(jute.read_string, jute.write_string)
_STRINGS = Kind(jute.read_strings, jute.write_strings)
_ACLS = Kind(_read_acls, _write_acls)
_STATS = Kind(read_stat, write_stat)
_SCHEME = Kind(_read_scheme, _write_scheme)

RECORDS: dict[type[Request] | type[Result], tuple[Kind, ...]] = {
    Create: (_STRING, _DATA, _ACLS, _INT),
    Create2: (_STRING, _DATA, _ACLS, _INT),
    Delete: (_STRING, _INT),
    SetData: (_STRING, _DATA, _INT),
    SetAcl: (_STRING, _ACLS, _INT),
    Check: (_STRING, _INT),
    Exists: (_STRING, _BOOL),
    GetData: (_STRING, _BOOL),
    GetAcl: (_STRING,),
    GetChildren: (_STRING, _BOOL),
    GetChildren2: (_STRING, _BOOL),
    Sync: (_STRING,),
    Ping: (),
    Auth: (_SCHEME, _BUFFER),
    SetWatches: (_LONG, _STRINGS, _STRINGS, _STRINGS),
    CloseSession: (),
    Nothing: (),
    Created: (_STRING,),
    Created2: (_STRING, _STATS),
    StatResult: (_STATS,),
    Data: (_DATA, _STATS),
    AclResult: (_ACLS, _STATS),
    Children: (_STRINGS,),
    Children2: (_STRINGS, _STATS),
    Synced: (_STRING,),
}
"""The fields of each type, as many as it has and in its order."""

for _type, _kinds in RECORDS.items():
    assert len(_type.__struct_fields__) == len(_kinds), f"every field of {_type} has a kind"

_READERS = {kind: tuple(field.read for field in fields) for kind, fields in RECORDS.items()}
_WRITERS = {kind: tuple(field.write for field in fields) for kind, fields in RECORDS.items()}


def read_record(kind: type[Request] | type[Result], data: bytes, at: int) -> tuple[Any, int]:
    """A value of this type, and where it ends."""
    values: list[object] = []
    for read in _READERS[kind]:
        value, at = read(data, at)
        values.append(value)
    return kind(*values), at


def write_record(record: Request | Result) -> bytes:
    values = msgspec.structs.astuple(record)
    writers = _WRITERS[type(record)]
    return b"".join([write(value) for write, value in zip(writers, values, strict=True)])


PASSWORD_BYTES = 16
NO_SESSION = 0

_REQUEST = struct.Struct(">iqiq")
_REPLY = struct.Struct(">iiq")


class ConnectRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Give me a session, or mine back."""

    protocol: int
    #: the newest that this client has seen: a server that is behind must not take it
    last_zxid: int
    timeout_ms: int
    #: ``NO_SESSION`` asks for a new one
    session: int
    password: bytes
    read_only: bool | None = None


class ConnectReply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """This is your session; with ``timeout_ms`` 0, the one you had has expired."""

    timeout_ms: int
    session: int
    password: bytes
    read_only: bool | None = None


def expired_reply(request: ConnectRequest) -> ConnectReply:
    """There is no such session, or that is not its password: the two are not told apart."""
    read_only = None if request.read_only is None else False
    return ConnectReply(0, NO_SESSION, bytes(PASSWORD_BYTES), read_only)


def decode_connect_request(payload: bytes) -> ConnectRequest:
    """For a server. What may come after the fields we know is left alone."""
    protocol, last_zxid, timeout_ms, session = jute.unpack(_REQUEST, payload, 0)
    password, at = jute.read_buffer(payload, _REQUEST.size)
    read_only = jute.read_bool(payload, at)[0] if at < len(payload) else None
    return ConnectRequest(protocol, last_zxid, timeout_ms, session, password, read_only)


def encode_connect_request(request: ConnectRequest) -> bytes:
    """For a client, with its length."""
    fields = (request.protocol, request.last_zxid, request.timeout_ms, request.session)
    head = jute.pack(_REQUEST, *fields)
    return jute.framed(head, jute.write_buffer(request.password), _flag(request.read_only))


def decode_connect_reply(payload: bytes) -> ConnectReply:
    """For a client."""
    _protocol, timeout_ms, session = jute.unpack(_REPLY, payload, 0)
    password, at = jute.read_buffer(payload, _REPLY.size)
    read_only = None
    if at < len(payload):
        read_only, at = jute.read_bool(payload, at)
    jute.check_end(payload, at)
    return ConnectReply(timeout_ms, session, password, read_only)


def encode_connect_reply(reply: ConnectReply) -> bytes:
    """For a server, with its length."""
    head = jute.pack(_REPLY, 0, reply.timeout_ms, reply.session)
    return jute.framed(head, jute.write_buffer(reply.password), _flag(reply.read_only))


def _flag(read_only: bool | None) -> bytes:
    return b"" if read_only is None else jute.write_bool(read_only)
