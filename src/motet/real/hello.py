"""The first frames of a connection: which protocol, which cluster, who is speaking, and the proof of that.

Between nodes with a cluster key each side puts a fresh nonce into its greeting, and then sends the
HMAC-SHA256, under a key derived from the cluster key, of everything the two greetings claim. The key itself
never travels.

K1  A proof is for one connection: both nonces are in it.
K2  A proof is for one direction: whether its maker dialed is in it, so that it cannot be sent back.
K3  A proof is for one claim: the cluster, both ids and both incarnations are in it.
K4  Nobody learns the key from a proof who cannot guess the key; it has at least 16 characters for that.

It says who began the connection and nothing about the bytes that follow: against somebody between the two
nodes who changes them, only TLS helps.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets

import msgspec

from motet.errors import BadConfig
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


key_characters_min = 16
key_characters_max = 1024
nonce_bytes = 32


class ClusterKey:
    """The secret that all nodes of a cluster share. It is never printed, logged or sent."""

    __slots__ = ("_secret",)

    def __init__(self, text: str) -> None:
        if not key_characters_min <= len(text) <= key_characters_max:
            raise BadConfig(
                f"the cluster key has {len(text)} characters",
                hint=f"make one of at least {key_characters_min}, for example with `openssl rand -hex 32`",
            )
        self._secret = text.encode("utf-8", "surrogateescape")

    @classmethod
    def random(cls) -> ClusterKey:
        """A key that nobody else has."""
        return cls(random_key())

    def derive(self, purpose: str) -> bytes:
        """A key for one purpose, from which neither this one nor that of another purpose follows."""
        return hmac.digest(self._secret, b"motet " + purpose.encode(), hashlib.sha256)

    def __repr__(self) -> str:
        return "ClusterKey(…)"


def random_key() -> str:
    """The text of a new key."""
    return secrets.token_hex(32)


def fresh_nonce() -> bytes:
    return secrets.token_bytes(nonce_bytes)


def make_proof(key: ClusterKey, maker: Hello, other: Hello, *, dialed: bool) -> bytes:
    """What the side that sent ``maker`` shows to the side that sent ``other`` (K1, K2, K3)."""
    claim = _encode(
        (
            "dialer" if dialed else "listener",
            maker.cluster,
            (maker.address, maker.incarnation, maker.nonce),
            (other.address, other.incarnation, other.nonce),
        )
    )
    return hmac.digest(key.derive("peer proof 1"), claim, hashlib.sha256)


def is_proof(key: ClusterKey, shown: bytes, maker: Hello, other: Hello, *, dialed: bool) -> bool:
    """Whether this is what the side that sent ``maker`` has to show; takes the same time for any guess."""
    if len(maker.nonce) != nonce_bytes:
        return False
    return hmac.compare_digest(shown, make_proof(key, maker, other, dialed=dialed))
