"""One statement of SQL, looked at before it runs: whether it only reads, and which tables it names.

DuckDB's own parser does it, so nothing is guessed from the text: ``WITH`` names and tables are told apart,
and a statement that writes is refused even below ``EXPLAIN ANALYZE``, which would run it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from motet.columnar.feed import AT, CLOCK, clock_column, feed_schema
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import StreamInfo
from motet.core.streams.change import FeedChange
from motet.errors import BadInput
from motet.ids import StreamName

SYSTEM = "system"
"""The schema of the system's own tables. DuckDB has a catalog of that name, so they need help: see below."""

_READ_ONLY = "SQL reads tables: use SELECT, WITH, SHOW, DESCRIBE or EXPLAIN"


def tables_of(query: str) -> set[str]:
    """The tables it reads, as it writes them; the system's own as ``system.<name>``."""
    return set(_tables_in(_parsed(query), frozenset()))


def functions_of(query: str) -> set[str]:
    """The functions it calls, in small letters."""
    return set(_functions_in(_parsed(query)))


def _parsed(query: str) -> Any:
    """The syntax tree."""
    return json.loads(_serialized(query))


@lru_cache(maxsize=64)
def _serialized(query: str) -> str:
    """The same as text. A connection costs more than most queries, and several ask for the tree of one."""
    with duckdb.connect(":memory:") as connection:
        inner = checked_statement(query, connection)
        try:
            found = connection.execute("select json_serialize_sql(?::varchar)", [inner]).fetchone()
        except duckdb.Error as error:
            raise refusal(error) from None
    assert found is not None
    return str(found[0])


def refusal(error: Exception) -> BadInput:
    """What DuckDB has to say about a query."""
    return BadInput(str(error).strip(), hint="correct the query")


def checked_statement(query: str, connection: duckdb.DuckDBPyConnection) -> str:
    """The statement, or what it explains; ``BadInput`` unless it is one that only reads."""
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise refusal(error) from None
    if len(statements) != 1:
        raise BadInput(f"{len(statements)} statements, one is wanted", hint=_READ_ONLY)
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        return checked_statement(_explained(query, connection), connection)
    if kind != duckdb.StatementType.SELECT:
        raise BadInput(f"a statement of the kind {kind.name} is not for here", hint=_READ_ONLY)
    return query


def _explained(query: str, connection: duckdb.DuckDBPyConnection) -> str:
    """What follows ``EXPLAIN`` and its options: the first rest of the text that is a statement."""
    text = query.encode()
    for place, _ in duckdb.tokenize(query)[1:]:
        rest = text[place:].decode()
        try:
            if connection.extract_statements(rest):
                return rest
        except duckdb.Error:
            continue
    raise BadInput("there is nothing to explain", hint=_READ_ONLY)


def _tables_in(node: Any, named: frozenset[str]) -> Iterator[str]:
    """The tables below a node of the syntax tree; ``named`` are the names that ``WITH`` has given."""
    if isinstance(node, list):
        for each in node:
            yield from _tables_in(each, named)
    if not isinstance(node, dict):
        return
    if node.get("type") == "BASE_TABLE":
        yield from _table_in(node, named)
    if node.get("type") == "RECURSIVE_CTE_NODE":
        named |= {_folded(node["cte_name"])}
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield from _tables_in(entry["value"], named)
        named |= {_folded(entry["key"])}
    for name, each in node.items():
        if name != "cte_map":
            yield from _tables_in(each, named)


def _functions_in(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _functions_in(each)
    elif isinstance(node, dict):
        if isinstance(name := node.get("function_name"), str):
            yield name.lower()
        for each in node.values():
            yield from _functions_in(each)


def _table_in(node: dict[str, Any], named: frozenset[str]) -> Iterable[str]:
    schema, table = node.get("schema_name", ""), node["table_name"]
    if schema.lower() == SYSTEM:
        return [f"{SYSTEM}.{table}"]
    if schema.lower() == "main" or (not schema and _folded(table) not in named):
        return [table]
    return []


def _folded(name: str) -> str:
    return name.lower()


def with_system_tables(query: str, names: Iterable[str]) -> str:
    """The query with ``system.tables`` and its like, of these names, each written as one quoted name.

    Otherwise DuckDB would look for them in a catalog of its own.
    """
    text = query.encode()
    starts = [place for place, kind in duckdb.tokenize(query) if kind != duckdb.token_type.comment]
    known = {name.lower() for name in names}
    made, done = b"", 0
    for first, dot, last, end in _fours([*starts, len(text), len(text), len(text)]):
        words = [_word(text[first:dot]), _word(text[dot:last]), _word(text[last:end])]
        if first >= done and words[1] == "." and "".join(words) in known:
            kept = text[last:end].rstrip()
            made += text[done:first] + b'"' + "".join(words).encode() + b'"'
            done = last + len(kept)
    return (made + text[done:]).decode()


def _fours(places: list[int]) -> Iterator[tuple[int, int, int, int]]:
    return zip(places, places[1:], places[2:], places[3:], strict=False)


def _word(token: bytes) -> str:
    return token.decode().strip().strip('"').lower()


STRINGS = pa.list_(pa.string())


Columns = Sequence[tuple[str, pa.DataType, Callable[[Any], object]]]
"""The name and type of each column, and its value in a row."""


def _table(rows: Iterable[Any], columns: Columns) -> pa.Table:
    found = list(rows)
    return pa.Table.from_arrays(
        [pa.array([value(row) for row in found], kind) for _, kind, value in columns],
        schema=pa.schema([(name, kind) for name, kind, _ in columns]),
    )


#: entries and clock are not known while a shard has no leader
_STREAMS: Columns = (
    ("name", pa.string(), lambda info: info.name),
    ("shards", pa.int32(), lambda info: info.shards),
    ("entries", pa.int64(), lambda info: sum(info.entries) if info.entries else None),
    ("typed", pa.bool_(), lambda info: info.schema is not None),
    ("created", CLOCK, lambda info: _clock(info.created) if info.entries else None),
)


def streams_table(streams: Iterable[StreamInfo]) -> pa.Table:
    """``system.streams``"""
    return _table(streams, _STREAMS)


def _clock(clock: Clock) -> dict[str, int]:
    return {"logical": clock.logical, "counter": clock.counter}


def changes_schema() -> pa.Schema:
    """``system.changes``: the columns of the feed; rows are JSON, whatever their stream."""
    return feed_schema([JsonStream()])


class JsonStream(msgspec.Struct, frozen=True):
    """Stands for any stream, its rows taken as JSON."""

    name: StreamName = StreamName("")
    schema: bytes | None = None


def commit_clock_schema() -> pa.Schema:
    """``system.transaction_commit_clock``"""
    return pa.schema([("transaction", pa.string()), ("commit_clock", CLOCK), ("timestamp", AT)])


def commit_clock_table(changes: Sequence[FeedChange]) -> pa.Table:
    """The transactions of a page of the feed, each once: a page never splits one."""
    firsts = [
        change
        for place, change in enumerate(changes)
        if not place or changes[place - 1].transaction != change.transaction
    ]
    columns = [
        pa.array([change.transaction for change in firsts], pa.string()),
        clock_column(firsts),
        pa.array([change.at_ms * 1000 for change in firsts], pa.int64()).cast(AT),
    ]
    return pa.Table.from_arrays(columns, schema=commit_clock_schema())


MOMENT = pa.timestamp("ms", tz="UTC")

STANDINGS: dict[str, pa.Schema] = {
    "tables": pa.schema(
        [
            ("name", pa.string()),
            ("id", pa.string()),
            ("engine", pa.string()),
            ("order_by", STRINGS),
            ("partition_by", pa.string()),
            ("shard_by", STRINGS),
            ("version", pa.string()),
            ("tombstone", pa.string()),
            ("dedup", pa.string()),
            ("dedup_window", pa.int64()),
            ("columns", STRINGS),
            ("shards", pa.int32()),
            ("replicas", pa.int32()),
            ("parts", pa.int64()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("created", MOMENT),
        ]
    ),
    "parts": pa.schema(
        [
            ("table", pa.string()),
            ("shard", pa.int32()),
            ("name", pa.string()),
            ("id", pa.string()),
            ("partition", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("hash", pa.string()),
        ]
    ),
    "replicas": pa.schema(
        [
            ("table", pa.string()),
            ("table_id", pa.string()),
            ("shard", pa.int32()),
            ("node", pa.string()),
            ("endpoint", pa.string()),
            ("phase", pa.string()),
            ("why", pa.string()),
            ("log_pointer", pa.int64()),
            ("head", pa.int64()),
            ("queue", pa.int64()),
            ("parts", pa.int64()),
            ("bytes", pa.int64()),
        ]
    ),
    "replication_queue": pa.schema(
        [
            ("table", pa.string()),
            ("shard", pa.int32()),
            ("node", pa.string()),
            ("entry", pa.int64()),
            ("part", pa.string()),
            ("reason", pa.string()),
            ("tries", pa.int64()),
        ]
    ),
    "log": pa.schema(
        [
            ("table", pa.string()),
            ("shard", pa.int32()),
            ("entry", pa.int64()),
            ("type", pa.string()),
            ("parts", STRINGS),
            ("detail", pa.string()),
            ("zxid", pa.int64()),
            ("created", MOMENT),
        ]
    ),
    "quorum": pa.schema(
        [
            ("table", pa.string()),
            ("shard", pa.int32()),
            ("part", pa.string()),
            ("wanted", pa.int32()),
            ("members", STRINGS),
            ("since", MOMENT),
        ]
    ),
    "writers": pa.schema(
        [
            ("name", pa.string()),
            ("epoch", pa.int64()),
            ("through", CLOCK),
            ("version", pa.string()),
            ("published", MOMENT),
            ("rows", pa.int64()),
            ("steps", pa.int64()),
            ("tables", STRINGS),
            ("error", pa.string()),
        ]
    ),
    "shards": pa.schema(
        [
            ("stream", pa.string()),
            ("shard", pa.int32()),
            ("leader", pa.string()),
            ("ensemble", STRINGS),
            ("closed", CLOCK),
            ("behind_ms", pa.int64()),
            ("held_by", pa.string()),
            ("error", pa.string()),
        ]
    ),
    "nodes": pa.schema(
        [
            ("node", pa.string()),
            ("endpoint", pa.string()),
            ("roles", STRINGS),
            ("shards", pa.int32()),
            ("leads", pa.int32()),
        ]
    ),
    "clock": pa.schema(
        [("clock", CLOCK), ("visible", CLOCK), ("behind_ms", pa.int64()), ("enabled", pa.bool_())]
    ),
    "incomplete_transactions": pa.schema(
        [
            ("transaction", pa.string()),
            ("stream", pa.string()),
            ("shard", pa.int32()),
            ("home", pa.string()),
            ("prepared", CLOCK),
        ]
    ),
}
"""Tables about how the system stands."""


def standing_table(name: str, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """One of ``STANDINGS``; a clock in it is a ``Clock``."""
    plain = [
        {key: _clock(value) if isinstance(value, Clock) else value for key, value in row.items()}
        for row in rows
    ]
    return pa.Table.from_pylist(plain, schema=STANDINGS[name])
