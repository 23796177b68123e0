"""The header of a prepare: what an operation is, without its bytes, and which operation came before.

Headers are chained: each carries the checksum of the one before it (``parent``). So one header that is
known to belong to the log vouches for all below it, whoever sends them, and a log can be repaired from
its head downwards with headers from anybody. A header keeps the view in which it was first prepared for
ever, and its checksum covers everything in it, the checksum of the body included: equal checksums mean
the same operation, to the byte.

``RESERVED`` headers are what a formatted log holds in places that no operation has used yet.
"""

from __future__ import annotations

import hashlib

import msgspec

from motet.ids import ClientId, ClusterId, Op, View

Checksum = bytes
"""16 bytes that say what something is."""

NO_CHECKSUM: Checksum = bytes(16)

header_bytes = 256
"""What a header takes on disk: two to a sector, so that none is ever torn."""

ROOT, RESERVED, REGISTER, NOOP, OPERATION_MIN = 0, 1, 2, 3, 16
"""Operations of the protocol itself; a state machine's own begin at ``OPERATION_MIN``."""


def checksum(data: bytes) -> Checksum:
    return hashlib.blake2b(data, digest_size=16).digest()


class Header(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One operation of the log. Make one with ``sealed``, so that its checksum is right."""

    cluster: ClusterId
    #: of the configuration; rises when members change
    epoch: int
    #: in which it was first prepared
    view: View
    op: Op
    #: the highest op that its primary knew to be committed
    commit: Op
    #: checksum of the header of op - 1
    parent: Checksum
    #: nanoseconds of the cluster's time of day, rising strictly from op to op
    timestamp: int
    client: ClientId
    #: the op that registered the client, 0 in the register itself
    session: int
    #: counts the requests of a session, 0 is its register
    request: int
    #: of the request as the client sent it
    request_checksum: Checksum
    #: which release of the protocol the client speaks
    release: int
    operation: int
    body_checksum: Checksum
    body_bytes: int
    #: of the primary's checkpoint below this op: replicas that disagree have diverged
    checkpoint_id: Checksum
    #: over all of the above
    checksum: Checksum = NO_CHECKSUM


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Header).decode


def sealed(header: Header) -> Header:
    """The same with its checksum."""
    return msgspec.structs.replace(header, checksum=_own_checksum(header))


def is_sealed(header: Header) -> bool:
    """Is it what somebody once sealed?"""
    return _own_checksum(header) == header.checksum


def root_header(cluster: ClusterId) -> Header:
    """Op 0, which all logs of a cluster have in common."""
    return _empty(cluster, Op(0), ROOT)


def reserved_header(cluster: ClusterId, slot: int) -> Header:
    """What a place of a formatted log holds."""
    return _empty(cluster, Op(slot), RESERVED)


def _empty(cluster: ClusterId, op: Op, operation: int) -> Header:
    return sealed(
        Header(
            cluster=cluster,
            epoch=0,
            view=View(0),
            op=op,
            commit=Op(0),
            parent=NO_CHECKSUM,
            timestamp=0,
            client=ClientId(0),
            session=0,
            request=0,
            request_checksum=NO_CHECKSUM,
            release=0,
            operation=operation,
            body_checksum=checksum(b""),
            body_bytes=0,
            checkpoint_id=NO_CHECKSUM,
        )
    )


def encode_header(header: Header) -> bytes:
    """As on disk: length, fields, zeros up to ``header_bytes``."""
    body = _encode(header)
    assert len(body) + 2 <= header_bytes, "a header outgrew its place"
    return (len(body).to_bytes(2, "little") + body).ljust(header_bytes, b"\0")


def decode_header(data: bytes) -> Header | None:
    """The header in these bytes; None if they are not one, whole and unchanged."""
    size_bytes = int.from_bytes(data[:2], "little")
    if not 0 < size_bytes <= header_bytes - 2 or len(data) < header_bytes:
        return None
    try:
        header = _decode(data[2 : 2 + size_bytes])
    except msgspec.MsgspecError:
        return None
    return header if is_sealed(header) else None


def _own_checksum(header: Header) -> Checksum:
    encoded = _encode(header)
    # The checksum comes last, and zeros stand for it in what it covers.
    if len(header.checksum) == len(NO_CHECKSUM):
        return checksum(encoded[: -len(NO_CHECKSUM)] + NO_CHECKSUM)
    return NO_CHECKSUM  # that is no checksum, and equal to none
