"""Votes: what a participant's prepare says to the home shard, by way of the client.

The home shard has to know that every participant has prepared, and at which clock: the commit clock must not
be below any of them (X7). The client coordinates, so it is the client that brings the votes; and it need not
be believed, because each vote carries a *seal* that only the nodes of the cluster can make. Nobody sends a
message more for it, and nobody waits.

V1  A vote is for one prepare: its seal is over the transaction, the clock its client asked at, the
    participant, the home shard and the clock of the prepare.
V2  A vote that was given stays true until the home shard has decided: a prepare ends with that decision and
    with nothing else. After it the home shard answers what was decided, and once it has forgotten that it
    refuses the transaction by the clock it was asked at (X5), which is in the vote.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

import msgspec

from motet.core.clock.hlc import Clock
from motet.ids import ShardName, TransactionId

seal_bytes = 16

_encode = msgspec.msgpack.Encoder().encode


class Vote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The vote of one participant, as its client brings it."""

    #: of the prepare
    clock: Clock
    seal: bytes


def seal_of(
    key: bytes,
    transaction: TransactionId,
    asked: Clock,
    participant: ShardName,
    home: ShardName,
    clock: Clock,
) -> bytes:
    """The seal of a vote, under the key that the nodes share for it."""
    vote = _encode((transaction, asked, participant, home, clock))
    return blake2b(vote, digest_size=seal_bytes, key=key, person=b"motet vote 1").digest()


def is_genuine(
    key: bytes,
    vote: Vote,
    transaction: TransactionId,
    asked: Clock,
    participant: ShardName,
    home: ShardName,
) -> bool:
    """Whether the participant has given this vote; takes the same time for any guess."""
    seal = seal_of(key, transaction, asked, participant, home, vote.clock)
    return compare_digest(seal, vote.seal)
