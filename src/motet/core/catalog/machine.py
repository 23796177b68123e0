"""The streams of a node, together with the catalog that says which there are.

What a stream *is* lives in the keeper, under ``/motet/streams``. *When* it began is in the log, for clocks
and their order come from there. So creating one takes two steps: define it in the keeper, and bear it in the
log. A crash may come between them.

::

    client ── create ──▶ catalog ── keep ──▶ keeper
                            ◀───── kept ──────┘
    client ◀── ready ── streams ◀── create (what the keeper has)

C1  What is in the log is in the keeper: a definition is kept before its stream is created, and who asked is
    told when both are durable.
C2  Of two who define the same name, the one whom the keeper took first is right. The other is told that it is
    there, or, if it wants something else, that it exists already.
C3  Before anything is served all that is defined is created: what a crash has left behind its first step is
    completed.
C4  A log and a keeper that do not belong together are not served: a log with something that is not defined,
    or defined otherwise, and a keeper with the number of another database.
C5  What is told of streams is what the keeper has, with the clock and the size that the log has.

If a creation is refused, for the disk is full, the definition stays, and the next who asks for it, or the
next start, tries again.
"""

from __future__ import annotations

import hashlib
from typing import Self

import msgspec

from motet.core.catalog.state import (
    DefinitionAsked,
    Phase,
    State,
    check_same,
    decode_definition,
)
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Note,
    Now,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
)
from motet.core.metadata.definitions import (
    NEWEST,
    DatabaseIdentity,
    StreamDefinition,
    decode_database_identity,
    drawn_incarnation,
    encode_database_identity,
    encode_stream_definition,
)
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    Conflict,
    Create,
    Failed,
    Found,
    Get,
    Listing,
    MetadataAnswer,
    Read,
    ReadDone,
    ReadOperation,
    Refusal,
    SessionBegun,
    SessionEnded,
    SessionOver,
    Set,
    Unknown,
    Write,
    Written,
)
from motet.core.metadata.paths import DATABASE, STREAMS, stream_path
from motet.core.onelog.checks import check
from motet.core.onelog.context import Phase as StreamsPhase
from motet.core.onelog.context import refusal
from motet.core.onelog.conversation import StreamsRequest
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import (
    CreateStream,
    Describe,
    Described,
    StreamInfo,
    StreamReady,
    StreamsRefused,
)
from motet.errors import BadRecord, MotetError, NodeError, OutcomeUnknown, error_of
from motet.ids import Address, RequestId, StreamId, TimerName

OWN = Address("catalog")
"""Who asks the streams for what is completed at the start."""

RETRY = TimerName("catalog-retry")
retry_ms = 200
"""How long a catalog waits before it asks a keeper again that could not say what it needs to start."""


class CatalogedStreams:
    """One node's streams, as a machine."""

    def __init__(self, streams: StreamsMachine | None = None) -> None:
        self.streams = StreamsMachine() if streams is None else streams
        self.state = State()

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            if event.sender == METADATA:
                return self._on_keeper(event)
            return self._on_client(event)
        if isinstance(event, Fired) and event.timer == RETRY:
            return self._read()
        if isinstance(event, Started):
            self.state.nonce = event.nonce
        return self._settle(self.streams.step(event))

    @property
    def is_serving(self) -> bool:
        return self.state.phase is Phase.SERVING and self._is_log_serving

    @property
    def _is_log_serving(self) -> bool:
        return self.streams.state.phase is StreamsPhase.SERVING

    @property
    def broken(self) -> tuple[str, str, str] | None:
        """The code of an error, what it is, and what to do; None if all is well."""
        return self.state.broken or self.streams.state.broken

    # Requests

    def _on_client(self, event: Received) -> list[Effect]:
        message = event.message
        if isinstance(message, CreateStream):
            return self._define(event, message)
        if not self.is_serving and self._is_log_serving and isinstance(message, StreamsRequest):
            return [refusal(event.sender, message.request, self._not_serving())]
        effects = self.streams.step(event)
        if isinstance(message, Describe):
            return [self._as_defined(effect) for effect in effects]
        return effects

    def _not_serving(self) -> MotetError:
        if self.state.broken is not None:
            code, what, advice = self.state.broken
            return NodeError(f"the catalog is out of order: {code} {what}", hint=advice)
        return NodeError(f"the node is {self.state.phase.value}", hint="try again in a moment")

    def _define(self, event: Received, message: CreateStream) -> list[Effect]:
        """C1, C2."""
        client, state = event.sender, self.state
        if not self._is_log_serving:
            return self.streams.step(event)  # which says why
        try:
            if not self.is_serving:
                raise self._not_serving()
            check(message)
            wanted = self._definition(message)
            known = state.streams.get(message.name)
            if known is not None:
                return self._bear(client, message, wanted, known, event.now)
            data = encode_stream_definition(wanted)
            state.check_room(data)
        except MotetError as error:
            return [refusal(client, message.request, error)]
        number = state.number()
        state.asked[number] = DefinitionAsked(client, message, wanted)
        return [self._create(number, stream_path(wanted.name), data)]

    def _create(self, number: RequestId, path: str, data: bytes) -> Effect:
        return Send(METADATA, Write(number, self.state.session, (Create(path, data),)))

    def _ask(self, number: RequestId, operations: tuple[ReadOperation, ...]) -> Effect:
        return Send(METADATA, Read(number, self.state.session, operations))

    def _definition(self, message: CreateStream) -> StreamDefinition:
        seed = f"{self.state.nonce} {self.state.numbers}".encode()
        digest = hashlib.blake2b(seed, digest_size=8, person=b"stream id").hexdigest()
        return StreamDefinition(
            StreamId(digest), message.name, message.shards, 1, message.schema, key_hash=NEWEST
        )

    def _bear(
        self,
        client: Address,
        message: CreateStream,
        wanted: StreamDefinition,
        known: StreamDefinition,
        now: Now,
    ) -> list[Effect]:
        """Have the log begin it, as the keeper has it, if that is what was wanted."""
        if known.name in self.streams.index.streams:
            return self.streams.step(Received(now, client, message))  # which compares them too
        check_same(known, wanted)
        return self.streams.step(Received(now, client, _creation(message.request, known)))

    def _as_defined(self, effect: Effect) -> Effect:
        """C5."""
        if not isinstance(effect, Send) or not isinstance(effect.message, Described):
            return effect
        streams = tuple(map(self._stream_info, effect.message.streams))
        told = msgspec.structs.replace(effect.message, streams=streams)
        return Send(effect.to, told, effect.after)

    def _stream_info(self, info: StreamInfo) -> StreamInfo:
        defined = self.state.streams[info.name]
        return msgspec.structs.replace(info, shards=defined.shards, schema=defined.schema)

    # What the keeper says

    def _on_keeper(self, event: Received) -> list[Effect]:
        message, state = event.message, self.state
        if isinstance(message, SessionBegun):
            state.session = message.session
            return self._read() if state.phase is Phase.READING else []
        if isinstance(message, SessionEnded):
            return self._on_session_ended()
        if not isinstance(message, MetadataAnswer):
            return [Note("catalog_foreign_message", type(message).__name__)]
        if message.request == state.reading:
            return self._on_read(message, event.now)
        asked = state.asked.pop(message.request, None)
        if asked is None:
            return [Note("catalog_unasked", type(message).__name__)]
        return self._on_answer(asked, message, event.now)

    def _on_answer(self, asked: DefinitionAsked, message: MetadataAnswer, now: Now) -> list[Effect]:
        """Of a definition that was to be kept; if somebody was first, of what is kept in its place (C2)."""
        path = stream_path(asked.wanted.name)
        if isinstance(message, Conflict) and message.why is Refusal.NODE_EXISTS:
            number = self.state.number()
            self.state.asked[number] = asked
            return [self._ask(number, (Get(path),))]
        try:
            known = self._kept(asked, path, message)
            self.state.streams[known.name] = known
            return self._bear(asked.client, asked.message, asked.wanted, known, now)
        except MotetError as error:
            return [refusal(asked.client, asked.message.request, error)]

    def _kept(self, asked: DefinitionAsked, path: str, message: MetadataAnswer) -> StreamDefinition:
        if isinstance(message, Written):
            return asked.wanted
        if isinstance(message, ReadDone) and isinstance(message.results[0], Found):
            return decode_definition(path, message.results[0].data)
        raise _error_in(message)

    def _on_session_ended(self) -> list[Effect]:
        """What was asked is not answered any more, and may have been done."""
        state = self.state
        state.session, state.reading = NO_SESSION, None
        lost, state.asked = state.asked, {}
        why = OutcomeUnknown("the session with the keeper ended before it answered")
        return [refusal(each.client, each.message.request, why) for each in lost.values()]

    # Starting

    def _settle(self, effects: list[Effect]) -> list[Effect]:
        """After a step of the streams: go on with the start, as far as it goes."""
        state = self.state
        if state.phase is Phase.SERVING or state.phase is Phase.BROKEN:
            return effects
        if state.phase is Phase.WAITING and self._is_log_serving:
            return [*effects, *self._read()]
        if state.phase is Phase.BEARING:
            return self._take_births(effects)
        return effects

    def _read(self) -> list[Effect]:
        """Say whose keeper this is, if nobody has, and ask it for all there is."""
        state = self.state
        state.phase, state.listing = Phase.READING, Listing((DATABASE, STREAMS))
        state.streams = {}
        if state.session == NO_SESSION:
            return []  # as soon as there is one
        state.reading = state.number()
        own = DatabaseIdentity(drawn_incarnation(state.nonce), self._own_number)
        return [self._create(state.reading, DATABASE, encode_database_identity(own))]

    @property
    def _own_number(self) -> str:
        """Of the log."""
        return f"{self.streams.state.database:016x}"

    def _on_read(self, message: MetadataAnswer, now: Now) -> list[Effect]:
        state = self.state
        state.reading = None
        is_read = isinstance(message, ReadDone)
        if isinstance(message, ReadDone):
            state.listing = state.listing.after(message.results)
        elif not isinstance(message, Written) and not _is_there(message):
            why = _error_in(message)
            note = Note("catalog_unreadable", f"{why.code} {why.what}")
            return [note, SetTimer(RETRY, retry_ms)]
        operations = state.listing.operations
        if operations:
            state.reading = state.number()
            return [self._ask(state.reading, operations)]
        assert is_read, "a listing begins with the names"
        try:
            return self._claim() or self._take(state.listing.found, now)
        except MotetError as error:
            state.phase = Phase.BROKEN
            state.broken = (error.code, error.what, error.advice)
            return [Note("catalog_broken", f"{error.code} {error.what}")]

    def _claim(self) -> list[Effect]:
        """Give the keeper of a new folder the number of its log, if tables came first; then read again."""
        state = self.state
        for node in state.listing.found:
            if node.path == DATABASE:
                identity = decode_database_identity(node.data)
                if identity.number:
                    return []
                own = msgspec.structs.replace(identity, number=self._own_number)
                state.reading, state.listing = state.number(), Listing(state.listing.paths)
                data = encode_database_identity(own)
                write = Set(DATABASE, data, node.stat.version)
                return [Send(METADATA, Write(state.reading, state.session, (write,)))]
        return []

    def _take(self, found: tuple[Found, ...], now: Now) -> list[Effect]:
        """Definitions in the order in which they were made."""
        for node in sorted(found, key=lambda each: each.stat.czxid):
            if node.path == DATABASE:
                self._check_database(node.data)
            elif node.path != STREAMS:
                definition = decode_definition(node.path, node.data)
                self.state.streams[definition.name] = definition
        return self._reconcile(now)

    def _check_database(self, data: bytes) -> None:
        """C4."""
        own = self._own_number
        if decode_database_identity(data).number != own:
            raise BadRecord(
                f"the log is that of database {own}, and the keeper that of another one",
                hint="put back the folders `streams` and `keeper` as they were, both of them",
            )

    def _reconcile(self, now: Now) -> list[Effect]:
        """C3, C4."""
        state, index = self.state, self.streams.index
        for name, stream in index.streams.items():
            defined = state.streams.get(name)
            if defined is None or (defined.shards, defined.schema) != (
                stream.shards,
                stream.schema,
            ):
                raise BadRecord(
                    f"the log has a stream {name} that the keeper does not define so",
                    hint="put back the folders `streams` and `keeper` as they were, both of them",
                )
        state.phase = Phase.BEARING
        effects: list[Effect] = []
        for definition in state.streams.values():
            if definition.name not in index.streams:
                request = state.number()
                state.creations[request] = definition.name
                effects.append(Note("catalog_completes", definition.name))
                effects += self.streams.step(Received(now, OWN, _creation(request, definition)))
        return self._take_births(effects)

    def _take_births(self, effects: list[Effect]) -> list[Effect]:
        """What the streams say to us about what they were to begin; the rest goes its way."""
        state = self.state
        kept: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Send) or effect.to != OWN:
                kept.append(effect)
                continue
            answer = effect.message
            assert isinstance(answer, StreamReady | StreamsRefused)
            name = state.creations.pop(answer.request)
            if isinstance(answer, StreamsRefused):
                kept.append(Note("catalog_not_completed", f"{name}: {answer.code} {answer.what}"))
        if not state.creations:
            state.phase = Phase.SERVING
        return kept

    # What a driver and a checker need

    def clone(self) -> Self:
        twin = type(self)(self.streams.clone())
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.state, self.streams.fingerprint()))

    def invariants(self) -> list[Violation]:
        found = self.streams.invariants()
        if self.state.phase is not Phase.SERVING:
            return found
        index = self.streams.index
        names = [name for name in index.streams if name not in self.state.streams]
        if names:
            found.append(Violation("C1", f"created and not defined: {names}"))
        return found


def _creation(request: RequestId, definition: StreamDefinition) -> CreateStream:
    """Has the log begin just this."""
    return CreateStream(
        request, definition.name, definition.shards, definition.schema, definition.key_hash
    )


def _is_there(message: MetadataAnswer) -> bool:
    """Somebody was first."""
    there = (Refusal.NODE_EXISTS, Refusal.BAD_VERSION)
    return isinstance(message, Conflict) and message.why in there


def _error_in(message: MetadataAnswer) -> MotetError:
    """Why the keeper has not done what it was asked."""
    if isinstance(message, Failed):
        return error_of(message.code, message.what, message.advice)
    if isinstance(message, Unknown):
        return OutcomeUnknown("the keeper did not say whether it has the definition")
    what = "of a former session" if isinstance(message, SessionOver) else type(message).__name__
    return NodeError(f"the keeper did not do it: {what}", hint="try again in a moment")
