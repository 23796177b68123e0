"""What a table may be, as far as that can be told without Arrow; clients compare columns with the schema."""

from __future__ import annotations

import re
from typing import get_args

from motet.core.metadata.definitions import TableDefinition, TableEngine, check_name
from motet.errors import BadInput, BadSchema, TooLarge
from motet.limits import (
    name_length_max,
    schema_bytes_max,
    shard_replicas_max,
    table_columns_max,
    table_shards_max,
)

FORMAT = 1
"""Of the layout in the keeper and of part files: the one that this release writes."""

SYSTEM_PREFIX = "system."
TABLE_ID = re.compile(r"[0-9a-f]{16}")
_WORDS = re.compile(r"([^(),\s]+)\s*(\(?)")
"""Of an expression: those before a parenthesis are functions."""

_expression_length_max = 2 * name_length_max
_column_id_max = (1 << 31) - 1


def check_table_name(name: str) -> None:
    """``BadInput`` for a name that no table can have."""
    check_name(name, "a table")
    if name.lower().startswith(SYSTEM_PREFIX):
        raise BadInput(f"{name!r} would be one of the system's own tables")


def check_table(definition: TableDefinition, replicas: int | None) -> None:
    """``BadInput`` for a table that cannot be created."""
    if not TABLE_ID.fullmatch(definition.id):
        raise BadInput(f"{definition.id[:40]!r} is not the id of a table", hint="16 hex digits")
    _check_counts(definition, replicas)
    _check_columns(definition)
    for what, names in (("order_by", definition.order_by), ("shard_by", definition.shard_by)):
        _check_names(definition, what, names)
    if not definition.order_by:
        raise BadSchema("order_by names at least one column")
    _check_engine(definition)
    if definition.disk != "local":
        hint = 'parts are on the disks of data nodes: disk="local"'
        raise BadInput(f"there is no disk {definition.disk[:40]!r}", hint=hint)
    if definition.dedup not in (None, "content"):
        raise BadInput(f"there is no dedup {definition.dedup!r}", hint='"content", or none')
    if definition.is_dropped or definition.schema_version or definition.format != FORMAT:
        raise BadInput(f"a new table is not dropped, of schema version 0 and of format {FORMAT}")


def _check_counts(definition: TableDefinition, replicas: int | None) -> None:
    if not 0 < definition.shards <= table_shards_max:
        raise BadInput(f"{definition.shards} shards are not between 1 and {table_shards_max}")
    if replicas is not None and not 0 < replicas <= shard_replicas_max:
        raise BadInput(f"{replicas} replicas are not between 1 and {shard_replicas_max}")
    if len(definition.schema) > schema_bytes_max:
        what = f"a schema of {len(definition.schema)} bytes exceeds the limit of {schema_bytes_max}"
        raise TooLarge(what)
    if not definition.schema:
        raise BadSchema("a table has a schema")


def _check_columns(definition: TableDefinition) -> None:
    columns = definition.columns
    if not 0 < len(columns) <= table_columns_max:
        raise BadSchema(f"{len(columns)} columns are not between 1 and {table_columns_max}")
    if len({column.name for column in columns}) < len(columns):
        raise BadSchema("two columns have one name")
    if len({column.id for column in columns}) < len(columns):
        raise BadSchema("two columns have one id")
    for column in columns:
        if not column.name:
            raise BadSchema("a column has no name")
        if not 0 <= column.id <= _column_id_max or column.since != 0:
            raise BadSchema(f"column {column.name[:80]!r} has id {column.id}, since {column.since}")


def _check_names(definition: TableDefinition, what: str, names: tuple[str, ...]) -> None:
    known = {column.name for column in definition.columns}
    for name in names:
        if name not in known:
            raise BadSchema(f"{what} names {name[:80]!r}, which is no column of the table")
    if len(set(names)) < len(names):
        raise BadSchema(f"{what} names a column twice")


def _check_engine(definition: TableDefinition) -> None:
    engine, version, tombstone = definition.engine, definition.version, definition.tombstone
    if engine not in get_args(TableEngine):
        hint = f"there are {', '.join(get_args(TableEngine))}"
        raise BadInput(f"there is no engine {engine!r}", hint=hint)
    text = definition.partition_by
    if text is not None and not 0 < len(text) <= _expression_length_max:
        raise BadInput(f"partition_by has 1 to {_expression_length_max} characters")
    if engine == "merge" and (version, tombstone) != (None, None):
        hint = 'leave them out, or use engine="replacing"'
        raise BadInput("engine merge has no use for version or tombstone", hint=hint)
    if engine == "replacing":
        _check_replacing(definition)


def _check_replacing(definition: TableDefinition) -> None:
    """T10: all versions of a key are in one shard and one partition."""
    for what, name in (("version", definition.version), ("tombstone", definition.tombstone)):
        _check_names(definition, what, () if name is None else (name,))
    keys = set(definition.order_by)
    columns = {column.name for column in definition.columns} - keys
    text = definition.partition_by or ""
    words = {text, *(word for word, call in _WORDS.findall(text) if not call)}
    for what, names in (("shard_by", set(definition.shard_by)), ("partition_by", words)):
        others = sorted(names & columns)
        if others:
            raise BadSchema(
                f"{what} uses {others[0]!r}, which is not in order_by: versions of a key would not meet",
                hint="engine replacing takes columns of order_by there",
            )
