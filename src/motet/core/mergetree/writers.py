"""What people and pipelines want to know of ordered writers, and what they say of their errors.

A writer's step is set by the multi that publishes it (``publishing``); here it is only read. An error is a
node of its own below the writer's, so that noting it neither disturbs a publication nor hides its version.
All of it is read from the keeper, by whatever node is asked.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.messages import (
    FindStep,
    NodeAnswer,
    NodeRequest,
    NoteWriter,
    PublishedStep,
    ReadSteps,
    ReadWriters,
    StepFound,
    StepsAre,
    WriterNoted,
    WritersAre,
    WriterStanding,
)
from motet.core.mergetree.paths import WRITERS, writer_path
from motet.core.mergetree.service import NodeService
from motet.core.mergetree.writer_state import (
    StoredStep,
    WriterRecord,
    chunk_steps,
    decode_steps,
    encode_state,
    last_step,
    note_path,
    state_of,
    steps_path,
)
from motet.core.metadata.definitions import check_name
from motet.core.metadata.messages import (
    Children,
    Conflict,
    Create,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadResult,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import MotetError, NodeError, OutcomeUnknown, TooLarge
from motet.errors.tables import TableBusy
from motet.ids import Address, RequestId, WriterName
from motet.limits import writer_note_length_max, writers_max

batch_writers = 64
"""Writers in one read."""

requests_max = 1_000
tries_max = 20


class WriterRequest(msgspec.Struct):
    """A request that is not answered."""

    client: Address
    message: ReadWriters | NoteWriter | ReadSteps | FindStep
    #: of the writers that are read: those that are left, and those that were found
    left: tuple[WriterName, ...] = ()
    found: list[WriterStanding] = msgspec.field(default_factory=list)
    has_names: bool = False
    #: of one writer: its node, and the chunk of its steps that is being read
    writer: ReadResult | None = None
    chunk: int | None = None
    #: of a search: the step lies in the chunks from low on, before high
    low: int = 0
    high: int = 0
    #: the first step after the clock, as far as is known
    best: StoredStep | None = None
    is_writing: bool = False
    tries: int = 0


class WritersMemory(msgspec.Struct):
    """All requests about writers."""

    requests: dict[RequestId, WriterRequest] = msgspec.field(default_factory=dict)


class WritersService(NodeService):
    """Answers for ordered writers."""

    name = "writers"
    takes = (ReadWriters, NoteWriter, ReadSteps, FindStep)

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: WritersMemory = WritersMemory()

    def on_request(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, self.takes)
        try:
            if message.writer is not None:
                check_name(message.writer, "an ordered writer")
            if isinstance(message, NoteWriter) and len(message.error) > writer_note_length_max:
                raise TooLarge(f"a note has at most {writer_note_length_max} characters")
            if len(self.memory.requests) >= requests_max:
                raise TableBusy(f"{requests_max} requests about writers wait at this node")
            if not self.node.memory.session:
                raise NodeError("this node has no session with the keeper", hint="ask another node")
        except MotetError as error:
            self.refuse(client, message, error)
            return
        asked = WriterRequest(client, message)
        if isinstance(message, ReadWriters) and message.writer is not None:
            asked.left, asked.has_names = (message.writer,), True
        self._go_on(asked)

    def on_session_end(self) -> None:
        asked, self.memory.requests = self.memory.requests, {}
        for each in asked.values():
            error: MotetError = NodeError("this node has lost its session with the keeper")
            if each.is_writing:
                error = OutcomeUnknown("the note may be remembered", hint="note it again")
            self.refuse(each.client, each.message, error)

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        asked = self.memory.requests.pop(request)
        try:
            if asked.is_writing:
                self._on_noted(asked, answer)
            elif not isinstance(answer, ReadDone):
                raise failure(answer)
            elif isinstance(asked.message, ReadWriters):
                self._on_writers(asked, answer)
            elif isinstance(asked.message, NoteWriter):
                self._note(asked, asked.message, answer)
            elif isinstance(asked.message, ReadSteps):
                self._on_steps(asked, asked.message, answer)
            else:
                self._on_search(asked, asked.message, answer)
        except MotetError as error:
            self.refuse(asked.client, asked.message, error)

    def _go_on(self, asked: WriterRequest) -> None:
        """Read what is needed next."""
        message = asked.message
        if isinstance(message, ReadWriters):
            if not asked.has_names:
                request = self.read(Children(WRITERS))
            else:
                paths = [(writer_path(w), note_path(w)) for w in asked.left[:batch_writers]]
                request = self.read(*(Get(path) for pair in paths for path in pair))
        elif asked.chunk is not None:
            request = self.read(Get(steps_path(message.writer or WriterName(""), asked.chunk)))
        elif isinstance(message, NoteWriter):
            own = (Get(writer_path(message.writer)), Get(note_path(message.writer)))
            request = self.read(*own, Get(WRITERS))
        else:
            request = self.read(Get(writer_path(message.writer)))
        self.memory.requests[request] = asked

    def _answer(self, asked: WriterRequest, answer: NodeAnswer) -> None:
        self.node.send(asked.client, answer)

    # How they stand

    def _on_writers(self, asked: WriterRequest, answer: ReadDone) -> None:
        if not asked.has_names:
            names = answer.results[0]
            listed = names.names if isinstance(names, Names) else ()
            asked.left, asked.has_names = tuple(map(WriterName, listed)), True
        else:
            each = iter(answer.results)
            for name, writer, note in zip(asked.left[:batch_writers], each, each, strict=False):
                if isinstance(writer, Found):
                    asked.found.append(self._standing(name, writer, note))
            asked.left = asked.left[batch_writers:]
        if asked.left:
            self._go_on(asked)
        else:
            self._answer(asked, WritersAre(asked.message.request, tuple(asked.found)))

    def _standing(self, name: WriterName, writer: Found, note: ReadResult) -> WriterStanding:
        state, last = state_of(writer), last_step(writer)
        step, version = None, None
        if last is not None:
            step = WriterStep(
                name, state.epoch, _clock(state.after), Clock.from_int(state.through), state.feed
            )
            version = self.node.version(last.version)
        published_ms = writer.stat.mtime_ms if last is not None else 0
        noted_ms = note.stat.mtime_ms if isinstance(note, Found) else 0
        error = note.data.decode(errors="replace") if isinstance(note, Found) else ""
        return WriterStanding(
            *(name, step, version, published_ms, noted_ms),
            *(state.rows, state.steps, state.tables, error),
        )

    # What they say

    def _note(self, asked: WriterRequest, message: NoteWriter, answer: ReadDone) -> None:
        writer, note, writers = answer.results
        operations: list[WriteOperation] = []
        if not isinstance(writer, Found):
            if isinstance(writers, Found) and writers.stat.children >= writers_max:
                raise TooLarge(f"there are {writers_max} ordered writers already")
            operations.append(Create(writer_path(message.writer), encode_state(WriterRecord())))
        data = message.error.encode()
        if isinstance(note, Found):
            operations.append(Set(note.path, data, note.stat.version))
        else:
            operations.append(Create(note_path(message.writer), data))
        asked.is_writing = True
        self.memory.requests[self.write(*operations)] = asked

    def _on_noted(self, asked: WriterRequest, answer: MetadataAnswer) -> None:
        asked.is_writing = False
        if isinstance(answer, Written):
            self._answer(asked, WriterNoted(asked.message.request))
        elif isinstance(answer, Conflict) and asked.tries < tries_max:
            asked.tries += 1
            self._go_on(asked)
        elif isinstance(answer, Conflict):
            raise TableBusy("others note something of this writer again and again")
        else:
            raise failure(answer)

    # Their steps

    def _on_steps(self, asked: WriterRequest, message: ReadSteps, answer: ReadDone) -> None:
        found = answer.results[0]
        if asked.chunk is not None:
            steps = decode_steps(found.data) if isinstance(found, Found) else ()
            self._tell_steps(asked, [s for s in steps if s.epoch > message.after_epoch], more=True)
            return
        state, last = state_of(found), last_step(found)
        chunk = max((message.after_epoch + 1) // chunk_steps, state.first_chunk)
        if chunk < state.next_chunk:
            asked.chunk = chunk
            self._go_on(asked)
            return
        steps = (*state.recent, *(() if last is None else (last,)))
        self._tell_steps(asked, [s for s in steps if s.epoch > message.after_epoch], more=False)

    def _tell_steps(self, asked: WriterRequest, steps: list[StoredStep], *, more: bool) -> None:
        told = tuple(self._told(step) for step in steps)
        self._answer(asked, StepsAre(asked.message.request, told, more))

    def _told(self, step: StoredStep) -> PublishedStep:
        through = Clock.from_int(step.through)
        return PublishedStep(
            step.epoch, _clock(step.after), through, self.node.version(step.version)
        )

    def _on_search(self, asked: WriterRequest, message: FindStep, answer: ReadDone) -> None:
        """The newest steps first; then, if it lies before them, among the chunks, by halves."""
        found, clock = answer.results[0], message.through.to_int()
        if asked.chunk is None:
            state, last = state_of(found), last_step(found)
            steps = (*state.recent, *(() if last is None else (last,)))
            asked.low, asked.high = state.first_chunk, state.next_chunk
        else:
            steps = decode_steps(found.data) if isinstance(found, Found) else ()
        reached = [step for step in steps if step.through >= clock]
        if reached:
            asked.best = reached[0]
            asked.high = asked.high if asked.chunk is None else asked.chunk
        elif asked.chunk is None:
            self._answer(asked, StepFound(message.request, None))
            return
        else:
            asked.low = asked.chunk + 1
        is_first = bool(reached) and reached[0] is not steps[0]
        if is_first or asked.low >= asked.high:
            self._tell_found(asked, message, clock)
        else:
            asked.chunk = (asked.low + asked.high) // 2
            self._go_on(asked)

    def _tell_found(self, asked: WriterRequest, message: FindStep, clock: int) -> None:
        best = asked.best
        assert best is not None, "the newest steps have reached it"
        if best.epoch > 0 and best.after is not None and best.after >= clock:
            # The step before it has reached the clock, too, and is not remembered.
            self._answer(asked, StepFound(message.request, None, is_forgotten=True))
        else:
            self._answer(asked, StepFound(message.request, self._told(best)))


def _clock(packed: int | None) -> Clock | None:
    return None if packed is None else Clock.from_int(packed)
