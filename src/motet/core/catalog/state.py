"""The state of a catalog, and the small questions that are asked of it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.metadata.definitions import StreamDefinition, decode_stream_definition
from motet.core.metadata.messages import NO_SESSION, Listing
from motet.core.onelog.messages import CreateStream
from motet.errors import BadInput, BadRecord, NodeError, StreamExists, TooLarge
from motet.format.frame import UNDECODABLE
from motet.ids import Address, RequestId, SessionId, StreamName
from motet.limits import commits_waiting_max, definition_bytes_max, streams_max


def decode_definition(path: str, data: bytes) -> StreamDefinition:
    """What a node of the keeper defines."""
    try:
        return decode_stream_definition(data)
    except UNDECODABLE as error:
        raise BadRecord(f"the keeper's {path} is no definition: {error}") from None


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
    message: CreateStream
    wanted: StreamDefinition


class State(msgspec.Struct):
    """All that a catalog knows besides the log."""

    phase: Phase = Phase.WAITING
    #: as the keeper has them
    streams: dict[StreamName, StreamDefinition] = msgspec.field(default_factory=dict)
    #: with the keeper; 0: there is none
    session: SessionId = NO_SESSION
    #: by the number under which the keeper was asked
    asked: dict[RequestId, DefinitionAsked] = msgspec.field(default_factory=dict)
    #: the number of what is asked at the start, and how far that has come
    reading: RequestId | None = None
    listing: Listing = Listing(())
    #: what is put into the log at the start: the request -> its name
    creations: dict[RequestId, StreamName] = msgspec.field(default_factory=dict)
    #: numbers given to what the keeper was asked
    numbers: int = 0
    nonce: int = 0
    #: why nothing is served
    broken: tuple[str, str, str] | None = None

    def number(self) -> RequestId:
        """A fresh one, for something that the keeper is asked."""
        self.numbers += 1
        return RequestId(self.numbers)

    def check_room(self, data: bytes) -> None:
        """An error if one more definition, this large, is too much: nothing may be half-done."""
        if len(self.asked) >= commits_waiting_max:
            raise NodeError(
                "too many definitions wait for the keeper", hint="try again in a moment"
            )
        if len(data) > definition_bytes_max:
            raise TooLarge(
                f"a definition of {len(data)} bytes exceeds the limit of {definition_bytes_max}"
            )
        if len(self.streams) + len(self.asked) >= streams_max:
            raise BadInput(f"another stream exceeds the limit of {streams_max}")


def check_same(known: StreamDefinition, wanted: StreamDefinition) -> None:
    """An error if something else has the name."""
    if not known.is_same(wanted):
        raise StreamExists(f"the stream {known.name!r} exists already, and is another one")
