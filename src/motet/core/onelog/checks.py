"""What a request must be like to be taken at all; a client that breaks a rule is told which, and no more."""

from __future__ import annotations

from motet.core.metadata.definitions import check_name
from motet.core.onelog.conversation import StreamsRequest
from motet.core.onelog.messages import (
    Append,
    Commit,
    CommitFixed,
    CreateStream,
    FixClock,
    GetLatest,
    GetTransaction,
    OrderFeed,
    ReadEntries,
    ReadFeed,
    ReleaseClock,
    SplitFeed,
)
from motet.core.streams.change import Token
from motet.core.streams.checks import (
    check_change,
    check_key,
    check_row,
    check_transaction_bytes,
    check_transaction_count,
    check_transaction_id,
)
from motet.core.streams.orders import check_order
from motet.errors import BadInput
from motet.limits import (
    feed_splits_max,
    name_length_max,
    page_changes_max,
    stream_shards_max,
    token_number_max,
)


def check(message: StreamsRequest) -> None:
    """``BadInput`` when the request cannot be taken."""
    if isinstance(message, CreateStream):
        _check_stream(message)
    elif isinstance(message, Append):
        check_key(message.key)
        check_row(message.value)
        if message.token is not None:
            _check_token(message.token)
    elif isinstance(message, GetLatest):
        check_key(message.key)
    elif isinstance(message, Commit | FixClock):
        _check_commit(message)
    elif isinstance(message, CommitFixed | ReleaseClock | GetTransaction):
        check_transaction_id(message.transaction)
    elif isinstance(message, ReadEntries | ReadFeed | SplitFeed):
        _check_reading(message)
    elif isinstance(message, OrderFeed):
        check_order(message.order)
        if not message.streams:
            raise BadInput("an order is about one stream at least")


def _check_reading(message: ReadEntries | ReadFeed | SplitFeed) -> None:
    if isinstance(message, SplitFeed):
        if not 0 < message.splits <= feed_splits_max:
            raise BadInput(f"{message.splits} is not between 1 and {feed_splits_max} splits")
        if message.changes_max is not None and message.changes_max < 1:
            raise BadInput("a slice has room for one change at least")
    elif not 0 < message.limit <= page_changes_max:
        raise BadInput(f"a limit of {message.limit} is not between 1 and {page_changes_max}")
    if not isinstance(message, ReadEntries) and not message.streams:
        raise BadInput("a feed needs at least one stream")


def _check_stream(message: CreateStream) -> None:
    check_name(message.name, "a stream")
    if not 0 < message.shards <= stream_shards_max:
        raise BadInput(f"{message.shards} shards are not between 1 and {stream_shards_max}")
    check_row(message.schema or b"")


def _check_token(token: Token) -> None:
    if not 0 < len(token.producer) <= name_length_max:
        raise BadInput(f"a producer has 1 to {name_length_max} characters")
    if not 0 <= token.number <= token_number_max:
        raise BadInput(f"the number of a token is not between 0 and {token_number_max}")


def _check_commit(message: Commit | FixClock) -> None:
    check_transaction_id(message.transaction)
    check_transaction_count(len(message.changes) + len(message.reads))
    check_transaction_bytes(sum(map(check_change, message.changes)))
    for read in message.reads:
        check_key(read.key)
