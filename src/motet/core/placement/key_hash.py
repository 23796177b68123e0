"""Which shard of its stream a key belongs to: the same for every client and for as long as the stream exists.

A stream's definition names the hash it was created with. New streams get :data:`NEWEST`; a stream that
exists keeps its own, since its keys are where that one put them.
"""

from __future__ import annotations

from enum import StrEnum

from motet.format.checksum import crc32c
from motet.ids import ShardId

_MASK = 0xFFFF_FFFF


class KeyHash(StrEnum):
    """How the number of a key's shard is computed."""

    CRC32C = "crc32c"
    """The checksum alone. It is linear, so keys that count up (k0 … k19) use half of four shards."""
    CRC32C_FMIX32 = "crc32c-fmix32"
    """The checksum, then the finalizer of MurmurHash3: each bit of a key changes all of the result."""


NEWEST = KeyHash.CRC32C_FMIX32


def shard_of(key: bytes, shards: int, key_hash: KeyHash = NEWEST) -> ShardId:
    """The shard that a key belongs to, in a stream of today unless another hash is named."""
    mixed = crc32c(key)
    if key_hash is KeyHash.CRC32C_FMIX32:
        mixed = (mixed ^ mixed >> 16) * 0x85EB_CA6B & _MASK
        mixed = (mixed ^ mixed >> 13) * 0xC2B2_AE35 & _MASK
        mixed ^= mixed >> 16
    return ShardId(mixed % shards)
