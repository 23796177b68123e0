"""The handshake: the first message of either side of a connection, which has no header.

A client asks for a session with a timeout, or for the one it had, by number and password. The server gives
it one with the timeout that it grants; a timeout of 0 says that the session is no more.

Old clients end with the password, newer ones add whether a read-only server will do. The old ones count the
bytes of the answer and hang up on one too many, so the answer has that byte if and only if the question had
it: ``read_only`` is None without it.
"""

from __future__ import annotations

import struct

import msgspec

from motet.format.zookeeper import jute

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
    """For a server. What may stand behind the fields we know is left alone."""
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
