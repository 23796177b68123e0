"""Which insert this is: text tokens, and the numbers of producers.

K1  A token is a node of the table, made by the commit that uses it. So of two commits with one token one is
    done, over all shards and replicas (T7).
K2  A producer counts its inserts. ``producers/<name>`` is one node, set by its version with each of them: it
    holds the newest numbers, each with what was inserted under it. A number is never used twice; one that is
    so old that nobody knows is refused (T8).
K3  The failure of a quorum takes the token, or the number, back in the same multi: a retry is inserted anew.
K4  Inserts of one producer are pipelined: a commit expects the node as the commits before it will make it,
    and checks the part that the last of them registers. So if one is not done, none after it is, whatever
    version the node has come to; each of them reads again. Two inserts of one number are never under way
    together.
K5  Producers whose names begin with ``client-`` are those that clients make for themselves; they are
    forgotten when nobody has used them for an hour (``windows``), others never (T8).
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree.context import Core
from motet.core.mergetree.messages import InsertBlock
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.state import ProducerLane, State
from motet.core.metadata.messages import (
    ANY_VERSION,
    NO_SESSION,
    Check,
    Create,
    Delete,
    Found,
    Get,
    NodeStat,
    ReadResult,
    Set,
    WriteOperation,
)
from motet.errors import BadRecord, TokenExpired, TooLarge
from motet.errors.tables import TokenReused
from motet.ids import PartId, Zxid
from motet.limits import producer_window, producers_max

OWN_PREFIX = "client-"
"""Begins the names of producers that clients make for themselves (K5)."""

pipelined_max = producer_window // 2
"""Commits of one producer that are under way: a number of them that has to begin anew is remembered yet."""


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


def decode_producer(data: bytes) -> ProducerUses:
    """Read the data of a producer's node back; ``BadRecord`` for what is none."""
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
    known = decode_producer(found.data)
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
    return decode_producer(found.data).uses.get(message.number)


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
    known = decode_producer(found.data) if isinstance(found, Found) else ProducerUses()
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
    known = decode_producer(found.data)
    kept = known.uses.get(number)
    if kept is None or kept.part != part:
        return None
    del known.uses[number]
    return Set(found.path, _encode(known), found.stat.version)


# Pipelined commits of a producer


def has_turn(state: State, number: int) -> bool:
    """K4: whether an insert may be committed now."""
    message = state.inserts[number].message
    lane = state.lanes.get(message.producer)
    if not message.producer or lane is None:
        return True
    numbers = [state.inserts[each].message.number for each in lane.under_way]
    return len(numbers) < pipelined_max and message.number not in numbers


def expected(state: State, message: InsertBlock, found: ReadResult) -> ReadResult:
    """The node that says whether the token or the number was used, as it is when a commit comes to it."""
    lane = state.lanes.get(message.producer) if message.producer else None
    return found if lane is None else lane.expected


def chain(core: Core, message: InsertBlock) -> list[WriteOperation]:
    """What a commit checks of the one that it builds upon."""
    lane = core.state.lanes.get(message.producer) if message.producer else None
    return [] if lane is None else [Check(core.own_paths.part(lane.last), ANY_VERSION)]


def begin_commit(state: State, number: int, operation: WriteOperation) -> None:
    """The commit of an insert is under way, and sets the node of its producer."""
    message = state.inserts[number].message
    if not message.producer:
        return
    assert isinstance(operation, Create | Set), "a use makes a node, or sets it"
    version = operation.version + 1 if isinstance(operation, Set) else 0
    stat = NodeStat(version, 0, 0, Zxid(0), Zxid(0), 0, 0, NO_SESSION)
    after = Found(operation.path, operation.data, stat)
    lane = state.lanes.setdefault(message.producer, ProducerLane(after, message.part.id))
    lane.expected, lane.last = after, message.part.id
    lane.under_way[number] = None


def end_commit(state: State, number: int, *, is_done: bool) -> None:
    """The commit of an insert has ended. If it was not done, what was expected after it does not come."""
    producer = state.inserts[number].message.producer
    lane = state.lanes.get(producer)
    if lane is None or number not in lane.under_way:
        return
    del lane.under_way[number]
    if not is_done or not lane.under_way:
        del state.lanes[producer]
