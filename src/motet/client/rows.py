"""What callers hand in, checked and turned into bytes before anything is sent; and back again.

A key is text or bytes and is kept as bytes. A row is a dict of JSON: what comes back is what went in, so
anything that JSON would silently turn into something else (a number as a name, a NaN) is refused. A row of a
typed stream is a dict of what its schema says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from motet.client.calls import Calls
from motet.core.metadata.definitions import NAME as STREAM_NAME
from motet.core.onelog.messages import Describe, Described, StreamInfo
from motet.core.streams.change import Token
from motet.errors import BadInput, MissingLibrary, NodeError, NoSuchStream, OutcomeUnknown, TooLarge
from motet.ids import StreamName, TransactionId
from motet.limits import (
    key_bytes_max,
    name_length_max,
    page_changes_max,
    row_bytes_max,
    stream_shards_max,
    token_number_max,
    transaction_id_length_max,
)

if TYPE_CHECKING:
    from motet.columnar.rows import RowCodec


Key = str | bytes
Row = dict[str, Any]


_encode_json = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=True
).encode


_encode_plain = msgspec.json.Encoder().encode
_NAMES = frozenset({str})
_PLAIN = frozenset({str, int, bool, type(None)})
"""Values of which a faster encoder makes the same text; others are left to one that takes a closer look."""


def key_bytes(key: Key) -> bytes:
    """A key as it is kept."""
    if isinstance(key, str):
        key = _utf8(key, "a key")
    elif not isinstance(key, bytes):
        raise BadInput(f"a key is str or bytes, not {type(key).__name__}")
    if not key:
        raise BadInput("a key has at least one byte")
    if len(key) > key_bytes_max:
        raise TooLarge(f"a key of {len(key)} bytes is longer than {key_bytes_max}")
    return key


def value_bytes(value: object) -> bytes:
    """The value of a raw entry."""
    if type(value) is not bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise BadInput(
                f"the value of an entry is bytes, not {type(value).__name__}",
                hint="encode it, or use a transaction to write a row",
            )
        value = bytes(value)
    return _bounded(value, "a value")


def row_bytes(row: Row, schema: bytes | None = None) -> bytes:
    """A row as JSON; of a typed stream, ``BadSchema`` if it is not of its schema."""
    if not isinstance(row, dict):
        raise BadInput(f"a row is a dict, not {type(row).__name__}")
    if schema is not None:
        return _bounded(_codec(schema).encode(row), "a row")
    if _NAMES.issuperset(map(type, row)) and _PLAIN.issuperset(map(type, row.values())):
        try:
            return _bounded(_encode_plain(row), "a row")
        except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
            pass  # the other one says what is wrong with it
    try:
        _check_names(row)
        text = _encode_json(row)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the row is not JSON: {error}") from None
    return _bounded(_utf8(text, "a row"), "a row")


def row_of(data: bytes, schema: bytes | None = None) -> Row:
    """The row in what ``row_bytes`` made of it."""
    row: Row = json.loads(data) if schema is None else _codec(schema).decode(data)
    return row


def row_copy(row: Row) -> Row:
    """A row that stays as it is when the caller's changes."""
    try:
        copied: Row = _copy(row)
    except RecursionError:
        raise BadInput("the row contains itself") from None
    return copied


def stream_name(name: str) -> StreamName:
    """A name that a stream can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of a stream is str, not {type(name).__name__}")
    if not STREAM_NAME.fullmatch(name):
        raise BadInput(
            f"{name[:60]!r} is not a name for a stream",
            hint="a letter, then up to 127 letters, digits, `_`, `.` or `-`",
        )
    return StreamName(name)


def stream_names(names: Sequence[str]) -> tuple[StreamName, ...]:
    """A set of streams: each once, sorted."""
    if not names:
        raise BadInput("no stream is named", hint="name one or more, each as its own argument")
    return tuple(sorted({stream_name(name) for name in names}))


def token_of(token: object) -> Token | None:
    """A token as it travels."""
    if token is None:
        return None
    if not isinstance(token, tuple) or len(token) != 2:
        raise BadInput('a token is a pair, the producer and its own count: ("producer", 17)')
    producer, number = token
    if not isinstance(producer, str) or not 0 < len(producer) <= name_length_max:
        raise BadInput(f"the producer of a token is text of 1 to {name_length_max} characters")
    _utf8(producer, "a producer")
    return Token(producer, whole_number("a token's number", number, 0, token_number_max))


def whole_number(what: str, value: object, low: int, high: int) -> int:
    """A number of the caller's that has to be within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadInput(f"{what} is a whole number from {low} to {high}, not {value!r}")
    return value


def shard_count(shards: int) -> int:
    """How many shards a new stream is to have."""
    return whole_number("shards", shards, 1, stream_shards_max)


def transaction_id(name: object) -> TransactionId:
    """The id of a transaction; ``BadInput`` when it cannot be one."""
    if not isinstance(name, str) or not 0 < len(name) <= transaction_id_length_max:
        raise BadInput(f"a transaction id is a text of 1 to {transaction_id_length_max} characters")
    return TransactionId(name)


def page_limit(limit: int) -> int:
    """How many changes or entries are asked for at once."""
    return whole_number("limit", limit, 1, page_changes_max)


@lru_cache(maxsize=1024)
def _codec(schema: bytes) -> RowCodec:
    need_pyarrow("a stream with a schema")
    from motet.columnar.rows import row_codec

    return row_codec(schema)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(inner) for inner in value]
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _check_names(value: object) -> None:
    """JSON would turn ``{1: …}`` into ``{"1": …}`` without a word."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{name!r} is used as a name, and a name is str")
            _check_names(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_names(inner)


def _bounded(data: bytes, what: str) -> bytes:
    if len(data) > row_bytes_max:
        raise TooLarge(f"{what} of {len(data)} bytes is longer than {row_bytes_max}")
    return data


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} has a lone surrogate, which is no character") from None


class StreamSchema(NamedTuple):
    """A stream and its schema, as its IPC bytes; None for rows of JSON."""

    name: StreamName
    schema: bytes | None


class Schemas:
    """The schemas of the streams of one database, as far as this client knows them.

    A stream keeps its schema for ever, but another stream may have its name one day: what is known follows
    the map of a cluster. A stream that is not known is asked for when it is first needed: nothing is written
    to it before its schema is known, or known to be none.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[StreamName, bytes | None] = {}

    def learn(self, streams: Iterable[StreamInfo]) -> None:
        """A node has said what these streams are."""
        for info in streams:
            self._known[info.name] = info.schema

    def replace(self, streams: Iterable[StreamInfo]) -> None:
        """These are all the streams that there are."""
        self._known = {info.name: info.schema for info in streams}

    def knows(self, name: StreamName) -> bool:
        return name in self._known

    def known(self, name: StreamName) -> bytes | None:
        """The schema of a stream that is known."""
        return self._known[name]

    async def look_for(self, *names: StreamName) -> None:
        """Ask for those that are not known; a stream that is not there stays unknown."""
        if all(map(self.knows, names)):
            return
        try:
            self.learn((await self._calls.repeated(Describe, Described)).streams)
        except OutcomeUnknown as error:
            # Nothing is unknown to whoever was about to write: it has not been sent.
            raise NodeError(
                f"the streams of {self._calls.name} cannot be asked for: {error.what}",
                hint="nothing was changed; try again",
            ) from None

    async def of(self, name: StreamName) -> bytes | None:
        """The schema of a stream; ``NoSuchStream`` if there is none of that name."""
        await self.look_for(name)
        if not self.knows(name):
            raise NoSuchStream(f"there is no stream {name!r}")
        return self._known[name]

    def encoded(self, schema: object | None, stream: StreamName) -> bytes | None:
        """The schema of a stream to be created, as it is kept; None for rows of JSON."""
        if schema is None:
            return None
        need_pyarrow("a stream with a schema")
        from motet.columnar.schema import decode_schema, encode_schema

        data = encode_schema(schema, what=f"stream {stream!r}")
        there = self._known.get(stream)
        # Another version of Arrow may have written the same schema in other bytes.
        same = there is not None and decode_schema(there) == decode_schema(data)
        return there if same else data


def need_library(library: str, what: str) -> None:
    """``MissingLibrary`` if it is not installed; ``what`` cannot do without it."""
    try:
        import_module(library)
    except ImportError:
        raise MissingLibrary(
            f"{what} needs {library}, which is not installed",
            hint="install it, for instance with `pip install motet[sql]`",
        ) from None


need_pyarrow = partial(need_library, "pyarrow")
