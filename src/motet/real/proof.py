"""The proof that a node belongs to the cluster: it knows the cluster key, and the key never travels.

Both sides of a connection between nodes put a fresh nonce into their greetings, and then each sends the
HMAC-SHA256, under a key derived from the cluster key, of everything the two greetings claim.

K1  A proof is for one connection: both nonces are in it, so that it is worth nothing on another one.
K2  A proof is for one direction: whether its maker dialed is in it, so that it cannot be sent back.
K3  A proof is for one claim: the cluster, both ids and both incarnations are in it.
K4  Nobody learns the key from a proof who cannot guess the key; it has at least 16 characters for that.

It says who began the connection and nothing about the bytes that follow: against somebody between the two
nodes who changes them, only TLS helps.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

import msgspec

from motet.errors import BadConfig
from motet.real.hello import Hello

key_characters_min = 16
key_characters_max = 1024
nonce_bytes = 32

_encode = msgspec.msgpack.Encoder().encode


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
