"""The first frame of each side of a connection: which protocol, which cluster, and who is speaking.

Between nodes with a cluster key, a second frame follows from each side: the proof (:mod:`motet.real.proof`).
"""

from __future__ import annotations

import enum

import msgspec

from motet.format.frame import Frame, FrameKind, encode_frame
from motet.ids import Address
from motet.limits import hello_body_bytes_max

PROTOCOL_VERSION = 1

CLIENT_PREFIX = "client-"
"""How the addresses begin that a node gives to its clients; no node may be called that."""


class Refusal(enum.StrEnum):
    """Why a connection was closed by us."""

    #: bytes that are not frames, or damaged ones
    BAD_FRAME = "bad_frame"
    #: the first frame is not a greeting
    NO_HELLO = "no_hello"
    #: nothing came within the time for a greeting
    SILENT = "silent"
    WRONG_VERSION = "wrong_version"
    WRONG_CLUSTER = "wrong_cluster"
    #: somebody else answered where we dialed, or somebody calls himself by a name that cannot be his
    WRONG_ADDRESS = "wrong_address"
    #: more connections than allowed
    TOO_MANY = "too_many"
    #: the same node has connected once more, so this one must be dead
    REPLACED = "replaced"
    #: a client that takes nothing of what waits for it
    STALLED = "stalled"
    #: a client that has begun a frame and does not finish it
    UNFINISHED = "unfinished"
    #: a client with more requests that wait than there is room for
    OVERRUN = "overrun"
    #: a node that does not prove the cluster key
    UNPROVEN = "unproven"
    #: a node on another machine, and there is no cluster key that it could prove
    NOT_LOOPBACK = "not_loopback"
    #: another process that calls itself by the id of a node that is connected
    DUPLICATE = "duplicate"
    #: it came while we were stopping
    STOPPING = "stopping"


class Hello(msgspec.Struct, frozen=True):
    """Who speaks. A client has no address; the node it talks to gives it one."""

    version: int
    cluster: str
    address: str
    #: the kinds of frames that somebody takes here; nobody sends a client anything but answers
    takes: tuple[int, ...] = ()
    #: of a node: which of its processes this is; a later one has a higher number
    incarnation: int = 0
    #: of a node with a cluster key: fresh for each connection, and part of the other side's proof
    nonce: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Hello).decode


def encode_hello(cluster: str, address: Address | None, takes: tuple[int, ...] = ()) -> bytes:
    """The greeting of a client, or of a node without a key, as a whole frame."""
    return hello_frame(Hello(PROTOCOL_VERSION, cluster, address or "", takes))


def hello_frame(hello: Hello) -> bytes:
    """The greeting as a whole frame."""
    body = _encode(hello)
    assert len(body) <= hello_body_bytes_max
    return encode_frame(FrameKind.HELLO, 0, body)


def decode_hello(frame: Frame) -> Hello | None:
    """The greeting in a frame, None when it is something else."""
    if frame.kind != FrameKind.HELLO or len(frame.body) > hello_body_bytes_max:
        return None
    try:
        return _decode(frame.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
