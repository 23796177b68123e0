"""Which insert this is: text tokens, and the numbers of producers.

K1  A token is a node of the table, made by the commit that uses it. So of two commits with one token one is
    done, over all shards and replicas (T7).
K2  A producer counts its inserts. ``producers/<name>`` is one node, set by its version with each of them: it
    holds the newest numbers, each with what was inserted under it. A number is never used twice; one that is
    so old that nobody knows is refused (T8).
K3  The failure of a quorum takes the token, or the number, back in the same multi: a retry is inserted anew.
K4  Inserts of one producer that meet at a replica commit one after the other: they set one node.
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree.messages import InsertBlock
from motet.core.mergetree.paths import ShardPaths
from motet.core.metadata.messages import Create, Delete, Found, Get, ReadResult, Set, WriteOperation
from motet.errors import BadRecord, TokenExpired, TooLarge
from motet.errors.tables import TokenReused
from motet.ids import PartId
from motet.limits import producer_window, producers_max


class UsedToken(msgspec.Struct, frozen=True):
    """The data of a token's node."""

    part: PartId
    content: str
    shard: int = 0


class NumberUse(msgspec.Struct, frozen=True, array_like=True):
    """What a producer has inserted under a number."""

    part: PartId
    content: str
    shard: int = 0


class ProducerUses(msgspec.Struct):
    """The data of a producer's node."""

    #: the newest numbers
    uses: dict[int, NumberUse] = msgspec.field(default_factory=dict)
    #: numbers up to this one are not known any more
    forgotten: int = -1


_encode = msgspec.json.Encoder().encode
_token_decoder = msgspec.json.Decoder(UsedToken)
_producer_decoder = msgspec.json.Decoder(ProducerUses)


def _decode_token(data: bytes) -> UsedToken:
    try:
        return _token_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no use of a token: {error}") from None


def _decode_producer(data: bytes) -> ProducerUses:
    try:
        return _producer_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"these are no uses of a producer: {error}") from None


def read_use(paths: ShardPaths, token: str | None, producer: str | None) -> Get:
    """What says whether a token, or a producer's number, was used."""
    if producer:
        return Get(paths.producer(producer))
    return Get(paths.definition if token is None else paths.token(token))


def use_of(
    message: InsertBlock, found: ReadResult, producers: ReadResult
) -> UsedToken | NumberUse | None:
    """What was inserted under the token, or the number; None: nothing was, and it may be used."""
    if not message.producer:
        token = _decode_token(found.data) if isinstance(found, Found) else None
        return _checked(message, token)
    if not isinstance(found, Found):
        if isinstance(producers, Found) and producers.stat.children >= producers_max:
            raise TooLarge(
                f"the table remembers {producers_max} producers and takes no new one",
                hint="use fewer producers, each with a rising count",
            )
        return None
    known = _decode_producer(found.data)
    if message.number <= known.forgotten:
        raise TokenExpired(
            f"the token ({message.producer!r}, {message.number}) is older than what is remembered",
            hint="read the table to see whether it was inserted; go on with a higher number",
        )
    return _checked(message, known.uses.get(message.number))


def used(message: InsertBlock, found: ReadResult) -> UsedToken | NumberUse | None:
    """What was inserted under the token, or the number, whatever its content."""
    if not isinstance(found, Found):
        return None
    if not message.producer:
        return _decode_token(found.data)
    return _decode_producer(found.data).uses.get(message.number)


def _checked(
    message: InsertBlock, use: UsedToken | NumberUse | None
) -> UsedToken | NumberUse | None:
    if use is not None and (use.content != message.content or use.shard != message.shard):
        token: object = message.token
        if message.producer:
            token = message.producer, message.number
        raise TokenReused(f"token {token!r} was used for other rows")
    return use


def use(paths: ShardPaths, message: InsertBlock, found: ReadResult) -> WriteOperation:
    """K1, K2: what the commit does to the node that was found, or not."""
    part, content, shard = message.part.id, message.content, message.shard
    if not message.producer:
        return Create(paths.token(message.token), _encode(UsedToken(part, content, shard)))
    known = _decode_producer(found.data) if isinstance(found, Found) else ProducerUses()
    known.uses[message.number] = NumberUse(part, content, shard)
    while len(known.uses) > producer_window:
        oldest = min(known.uses)
        del known.uses[oldest]
        known.forgotten = max(known.forgotten, oldest)
    if isinstance(found, Found):
        return Set(found.path, _encode(known), found.stat.version)
    return Create(paths.producer(message.producer), _encode(known))


def take_back(found: ReadResult, part: PartId, number: int | None) -> WriteOperation | None:
    """K3; None: the node knows nothing of the part."""
    if not isinstance(found, Found):
        return None
    if number is None:
        is_of_part = _decode_token(found.data).part == part
        return Delete(found.path, found.stat.version) if is_of_part else None
    known = _decode_producer(found.data)
    kept = known.uses.get(number)
    if kept is None or kept.part != part:
        return None
    del known.uses[number]
    return Set(found.path, _encode(known), found.stat.version)
