"""What a request must be like to be taken at all; a client that breaks a rule is told which, and no more."""

from __future__ import annotations

from motet.core.metadata.definitions import NAME, check_name
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
    Wanted,
)
from motet.core.streams.change import OPS, Token
from motet.core.streams.orders import check_order
from motet.core.tables.checks import check_table_request
from motet.core.tables.messages import TablesCall
from motet.errors import BadInput, TooLarge
from motet.limits import (
    feed_splits_max,
    key_bytes_max,
    name_length_max,
    page_changes_max,
    row_bytes_max,
    stream_shards_max,
    token_number_max,
    transaction_bytes_max,
    transaction_changes_max,
    transaction_id_length_max,
)

STREAM_NAME = NAME


def check(message: StreamsRequest) -> None:
    """``BadInput`` when the request cannot be taken."""
    if isinstance(message, CreateStream):
        _check_stream(message)
    elif isinstance(message, Append):
        _check_key(message.key)
        _check_row(message.value)
        if message.token is not None:
            _check_token(message.token)
    elif isinstance(message, GetLatest):
        _check_key(message.key)
    elif isinstance(message, Commit | FixClock):
        _check_commit(message)
    elif isinstance(message, CommitFixed | ReleaseClock | GetTransaction):
        _check_transaction(message.transaction)
    elif isinstance(message, ReadEntries | ReadFeed | SplitFeed):
        _check_reading(message)
    elif isinstance(message, OrderFeed):
        check_order(message.order)
        if not message.streams:
            raise BadInput("an order is about one stream at least")
    elif isinstance(message, TablesCall):
        check_table_request(message)


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
    _check_row(message.schema or b"")


def _check_token(token: Token) -> None:
    if not 0 < len(token.producer) <= name_length_max:
        raise BadInput(f"a producer has 1 to {name_length_max} characters")
    if not 0 <= token.number <= token_number_max:
        raise BadInput(f"the number of a token is not between 0 and {token_number_max}")


def _check_transaction(name: str) -> None:
    if not 0 < len(name) <= transaction_id_length_max:
        raise BadInput(f"a transaction id has 1 to {transaction_id_length_max} characters")


def _check_commit(message: Commit | FixClock) -> None:
    _check_transaction(message.transaction)
    count = len(message.changes) + len(message.reads)
    if count > transaction_changes_max:
        raise TooLarge(
            f"a transaction of {count} reads and changes exceeds the limit of {transaction_changes_max}"
        )
    total_bytes = 0
    for wanted in message.changes:
        total_bytes += _check_change(wanted)
    if total_bytes > transaction_bytes_max:
        raise TooLarge(
            f"a transaction of {total_bytes} bytes exceeds the limit of {transaction_bytes_max}"
        )
    for read in message.reads:
        _check_key(read.key)


def _check_change(wanted: Wanted) -> int:
    _check_key(wanted.key)
    if wanted.op not in OPS:
        raise BadInput(f"{wanted.op!r} is no change of a row", hint="insert, update or delete")
    if (wanted.row is None) != (wanted.op == "delete"):
        raise BadInput(f"{wanted.op} of a key {'without' if wanted.row is None else 'with'} a row")
    row_bytes = _check_row(wanted.row or b"") + _check_row(wanted.before or b"")
    return len(wanted.key) + row_bytes


def _check_key(key: bytes) -> None:
    if not key:
        raise BadInput("a key cannot be empty")
    if len(key) > key_bytes_max:
        raise TooLarge(f"a key of {len(key)} bytes exceeds the limit of {key_bytes_max}")


def _check_row(row: bytes) -> int:
    if len(row) > row_bytes_max:
        raise TooLarge(f"a row of {len(row)} bytes exceeds the limit of {row_bytes_max}")
    return len(row)
