"""The state of a catalog, and the small questions that are asked of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from motet.core.metadata.definitions import StreamDefinition
from motet.core.metadata.messages import NO_SESSION, Listing
from motet.core.onelog.messages import CreateStream
from motet.core.tables.messages import CreateTable
from motet.core.tables.records import Engine, TableSpec
from motet.errors import BadInput, BadRecord, NodeError, StreamExists, TableExists, TooLarge
from motet.ids import Address, RequestId, SessionId, StreamName, TableId, TableName
from motet.limits import commits_waiting_max, definition_bytes_max, streams_max, tables_max


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


Creation = CreateStream | CreateTable
"""The requests that define something."""


class Phase(StrEnum):
    """Where a catalog is in its life."""

    #: the log is not read yet
    WAITING = "waiting for its log"
    READING = "reading its catalog"
    #: what is defined and not in the log is put there
    BEARING = "completing what was begun"
    SERVING = "serving"
    BROKEN = "broken"


class DefinitionAsked(msgspec.Struct, frozen=True):
    """Somebody waits for the keeper to have a definition."""

    client: Address
    message: Creation
    wanted: Definition


class State(msgspec.Struct):
    """All that a catalog knows besides the log."""

    phase: Phase = Phase.WAITING
    #: as the keeper has them
    streams: dict[StreamName, StreamDefinition] = msgspec.field(default_factory=dict)
    tables: dict[TableName, TableDefinition] = msgspec.field(default_factory=dict)
    #: with the keeper; 0: there is none
    session: SessionId = NO_SESSION
    #: by the number under which the keeper was asked
    asked: dict[RequestId, DefinitionAsked] = msgspec.field(default_factory=dict)
    #: the number of what is asked at the start, and how far that has come
    reading: RequestId | None = None
    listing: Listing = Listing(())
    #: what is put into the log at the start: the request -> its name
    creations: dict[RequestId, str] = msgspec.field(default_factory=dict)
    #: numbers given to what the keeper was asked
    numbers: int = 0
    nonce: int = 0
    #: why nothing is served
    broken: tuple[str, str, str] | None = None

    def number(self) -> RequestId:
        """A fresh one, for something that the keeper is asked."""
        self.numbers += 1
        return RequestId(self.numbers)

    def add(self, definition: Definition) -> None:
        """The keeper has it."""
        if isinstance(definition, StreamDefinition):
            self.streams[definition.name] = definition
        else:
            self.tables[definition.name] = definition

    def known(self, message: Creation) -> Definition | None:
        """What the keeper has under the name that somebody wants to define."""
        if isinstance(message, CreateStream):
            return self.streams.get(message.name)
        return self.tables.get(message.spec.name)

    def check_room(self, message: Creation, data: bytes) -> None:
        """An error if one more definition, this large, is too much: nothing may be half-done."""
        if len(self.asked) >= commits_waiting_max:
            raise NodeError(
                "too many definitions wait for the keeper", hint="try again in a moment"
            )
        if len(data) > definition_bytes_max:
            raise TooLarge(
                f"a definition of {len(data)} bytes exceeds the limit of {definition_bytes_max}"
            )
        coming = sum(type(each.message) is type(message) for each in self.asked.values())
        if isinstance(message, CreateStream):
            if len(self.streams) + coming >= streams_max:
                raise BadInput(f"another stream exceeds the limit of {streams_max}")
        elif len(self.tables) + coming >= tables_max:
            raise BadInput(f"another table exceeds the limit of {tables_max}")


def check_same(known: Definition, wanted: Definition) -> None:
    """An error if something else has the name."""
    if isinstance(known, StreamDefinition):
        if not isinstance(wanted, StreamDefinition) or not known.is_same(wanted):
            raise StreamExists(f"the stream {known.name!r} exists already, and is another one")
    elif not isinstance(wanted, TableDefinition) or not known.is_same(wanted):
        raise TableExists(f"the table {known.name!r} exists already, and is another one")
