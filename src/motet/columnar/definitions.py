"""Making the definition of a table: what may be asked for, and what would lose rows later.

T10  For ``replacing`` the shard and the partition of a row are functions of its key: versions of a key that
     lie in different shards or partitions would never meet.

Columns of the key may be nullable in the schema; a null in one is refused when rows are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pyarrow as pa

from motet.columnar.ordering import check_sortable
from motet.columnar.partitions import is_function_of, parse_partition_by
from motet.columnar.placing import is_hashable
from motet.columnar.schema import decode_schema, encode_schema
from motet.core.metadata.definitions import (
    Column,
    TableDefinition,
    TableEngine,
    encode_table_definition,
)
from motet.errors import BadInput, BadSchema, TooLarge
from motet.ids import TableId
from motet.limits import definition_bytes_max, table_shards_max

DISKS = ("local",)
DEDUPS = (None, "content")


def make_definition(
    name: str,
    table_id: TableId,
    schema: object,
    order_by: str | Sequence[str],
    *,
    partition_by: str | None = None,
    shards: int = 1,
    shard_by: str | Sequence[str] | None = None,
    engine: str = "merge",
    version: str | None = None,
    tombstone: str | None = None,
    dedup: str | None = None,
    disk: str = "local",
) -> TableDefinition:
    """The definition of a new table, checked; ``BadInput`` or ``BadSchema`` says what is wrong."""
    data = encode_schema(schema, what=f"table {name}")
    columns = decode_schema(data)
    _check_choices(engine, version, tombstone, dedup, disk)
    _check_shards(shards)
    keys = _names("order_by", order_by, name, columns)
    places = _names("shard_by", shard_by, name, columns) if shard_by is not None else keys[:1]
    definition = TableDefinition(
        id=table_id,
        schema=data,
        columns=tuple(Column(id=n, name=each) for n, each in enumerate(columns.names, 1)),
        order_by=keys,
        partition_by=partition_by,
        shards=shards,
        shard_by=places,
        engine="merge" if engine == "merge" else "replacing",
        version=version,
        tombstone=tombstone,
        dedup=None if dedup is None else "content",
        disk=disk,
    )
    _check_columns(definition, name, columns)
    if len(encode_table_definition(definition)) > definition_bytes_max:
        raise TooLarge(
            f"the definition of table {name} exceeds the limit of {definition_bytes_max} bytes"
        )
    return definition


def _check_choices(
    engine: str, version: str | None, tombstone: str | None, dedup: str | None, disk: str
) -> None:
    engines = get_args(TableEngine)
    if engine not in engines:
        raise BadInput(f"{engine!r} is not an engine", hint=f"use {' or '.join(engines)}")
    if engine == "merge" and (version, tombstone) != (None, None):
        raise BadInput(
            "engine merge keeps all rows and has no use for version or tombstone",
            hint='leave them out, or use engine="replacing"',
        )
    if dedup not in DEDUPS:
        raise BadInput(
            f"dedup={dedup!r} is not understood", hint='use dedup="content", or leave it out'
        )
    if disk not in DISKS:
        raise BadInput(f"{disk!r} is not a disk", hint=f"use {' or '.join(DISKS)}")


def _check_shards(shards: object) -> None:
    is_whole = isinstance(shards, int) and not isinstance(shards, bool)
    if not (is_whole and shards in range(1, table_shards_max + 1)):
        raise BadInput(f"shards={shards!r} is not a whole number from 1 to {table_shards_max}")


def _names(role: str, given: object, table: str, schema: pa.Schema) -> tuple[str, ...]:
    """Columns that a caller lists: one or more, each once."""
    listed: Any = [given] if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in listed):
        raise BadInput(f"{role} is a list of columns, not {given!r}")
    if not listed:
        raise BadSchema(f"{role} names no column of {table}", hint="name at least one")
    for each in listed:
        _check_known(role, each, table, schema)
    if len({*listed}) != len(listed):
        raise BadSchema(f"{role} names a column twice")
    return tuple(listed)


def _check_known(role: str, column: str, table: str, schema: pa.Schema) -> None:
    if column not in schema.names:
        raise BadSchema(
            f"{role} names {column!r}, which is not a column of {table}",
            hint=f"its columns are {', '.join(schema.names)}",
        )


def _check_columns(definition: TableDefinition, name: str, schema: pa.Schema) -> None:
    check_sortable(schema, definition.order_by)
    for column in definition.shard_by:
        kind = schema.field(column).type
        if not is_hashable(kind):
            raise BadSchema(f"shard_by cannot be {column!r}, which is {kind}")
    if definition.partition_by is not None:
        parse_partition_by(definition.partition_by, schema)
    if definition.version is not None:
        _check_known("version", definition.version, name, schema)
        check_sortable(schema, (definition.version,))
    if definition.tombstone is not None:
        _check_known("tombstone", definition.tombstone, name, schema)
        if schema.field(definition.tombstone).type != pa.bool_():
            raise BadSchema(f"the tombstone column {definition.tombstone!r} has to be a boolean")
    if definition.engine == "replacing":
        _check_meeting(definition, schema)


def _check_meeting(definition: TableDefinition, schema: pa.Schema) -> None:
    """T10."""
    keys = definition.order_by
    hint = f"use columns of order_by: {', '.join(keys)}"
    for column in definition.shard_by:
        if column not in keys:
            raise BadSchema(f"shard_by={column!r} would part the versions of a key", hint=hint)
    partition_by = definition.partition_by
    if partition_by is not None and not is_function_of(partition_by, schema, keys):
        raise BadSchema(
            f"partition_by={partition_by!r} would part the versions of a key", hint=hint
        )
