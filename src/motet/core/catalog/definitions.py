"""What a stream or a table is: said once, when it is created, and kept by the keeper as JSON.

A definition never changes. Fields that a later version adds are passed over by an earlier one; a definition
that lacks something, or is none, is ``BadRecord``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.metadata.definitions import StreamDefinition
from motet.core.tables.records import Engine, TableSpec
from motet.errors import BadRecord
from motet.ids import TableId, TableName


class TableDefinition(msgspec.Struct, frozen=True, tag="table", tag_field="kind"):
    """A table; :class:`motet.core.tables.records.TableSpec` says what each field means."""

    name: TableName
    id: TableId
    schema: bytes
    order_by: tuple[str, ...]
    shards: int
    engine: Engine
    version: str | None
    tombstone: str | None
    replicas: int = 1

    def is_same(self, other: TableDefinition) -> bool:
        """Whether the other one describes a table just like this one."""
        return msgspec.structs.replace(other, id=self.id) == self

    def spec(self) -> TableSpec:
        """As the log has it."""
        return TableSpec(
            self.name,
            self.id,
            self.schema,
            self.order_by,
            self.shards,
            self.engine,
            self.version,
            self.tombstone,
        )


Definition = StreamDefinition | TableDefinition
"""What a node below ``/motet/streams`` or ``/motet/tables`` says."""


def table_definition(spec: TableSpec) -> TableDefinition:
    """Of a table as a client wants it."""
    return TableDefinition(
        name=spec.name,
        id=spec.id,
        schema=spec.schema,
        order_by=spec.order_by,
        shards=spec.shards,
        engine=spec.engine,
        version=spec.version,
        tombstone=spec.tombstone,
    )


_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Definition] = msgspec.json.Decoder(Definition).decode


def encode_definition(definition: Definition) -> bytes:
    """The data of its node."""
    return _encode(definition)


def decode_definition(path: str, data: bytes) -> Definition:
    """What a node of the keeper defines."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRecord(f"the keeper's {path} is no definition: {error}") from None
