"""A toy machine, the worked example of the vocabulary: a notebook that forgets nothing it confirmed.

A client sends ``Remember``; the notebook appends the value to its journal and answers ``Remembered``
once the record is durable. After a crash it reads its journal back. That is all, and it already has
what makes the large machines interesting: a promise that must wait for a disk, a torn tail, a full disk,
and requests that come in before it knows its own past.

Rules:

T1  What was confirmed is recalled, for ever, in the order of positions.
T2  The journal holds exactly the values in memory, one record each, with no gap.
T3  Nothing is answered from a journal that has not been read, or that turned out to be damaged.
T4  A value is kept once, however often it is sent: the network repeats, and so do clients that retry.

The phases are plain data::

    reading ──ReadBack──▶ serving          clean end
       │    └──────────▶ cutting ──Written──▶ serving     a torn tail is cut off first
       └───────────────▶ broken            damage in the middle, or the disk cannot read it
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import msgspec

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Message,
    Note,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    Started,
    Truncate,
    Violation,
    Write,
    WriteFailed,
    Written,
)
from motet.format.journal import Ending, encode_record, scan
from motet.ids import Address, FileName, ReadId, WriteId

JOURNAL = FileName("journal")
SALT = 1
VALUE_RECORD = 1
WAITING_MAX = 1024


class Remember(Message, frozen=True, tag="remember"):
    """Please keep this value."""

    request: int
    value: str


class Remembered(Message, frozen=True, tag="remembered"):
    """It is durable, at this position."""

    request: int
    position: int


class Recall(Message, frozen=True, tag="recall"):
    """What do you remember?"""

    request: int


class Recalled(Message, frozen=True, tag="recalled"):
    """Everything that is durable, by position."""

    request: int
    values: list[str]


class Refused(Message, frozen=True, tag="refused"):
    """Not done. A copy of the request that is still under way may yet be: the toy knows no tokens."""

    request: int
    why: str


ToyMessage = Remember | Remembered | Recall | Recalled | Refused


class Phase(StrEnum):
    """Where a notebook is in its life."""

    READING = "reading"
    CUTTING = "cutting"
    SERVING = "serving"
    BROKEN = "broken"


class Asked(msgspec.Struct, frozen=True):
    """A value that somebody brought, and who waits for an answer."""

    client: Address
    request: int
    value: str


class State(msgspec.Struct):
    """All there is to a notebook."""

    phase: Phase = Phase.READING
    #: values[i] is at position i, and durable
    values: list[str] = []
    #: value -> its position, durable or being written (T4)
    positions: dict[str, int] = {}
    #: the batch on its way to the disk: writing[i] will be at position len(values) + i
    writing: list[str] = []
    #: who waits for the batch; several may have brought one value
    asking: list[Asked] = []
    #: what came in meanwhile; it goes out as one batch when the disk is done
    waiting: list[Asked] = []
    #: where the next record goes: the end of the durable journal
    end_bytes: int = 0
    #: the size of the batch being written
    writing_bytes: int = 0
    next_write: WriteId = WriteId(0)


class Notebook:
    """The toy machine. ``acknowledge_early`` plants the bug its simulation must find."""

    def __init__(self, *, acknowledge_early: bool = False) -> None:
        self._acknowledge_early = acknowledge_early
        self.state = State()

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            return self._on_message(event.sender, event.message)
        if isinstance(event, Written):
            return self._on_written()
        if isinstance(event, WriteFailed):
            return self._on_write_failed(event.why)
        if isinstance(event, Started):
            return [Read(ReadId(0), JOURNAL)]
        if isinstance(event, ReadBack):
            return self._on_read_back(event.data)
        if isinstance(event, ReadFailed):
            return self._break(event.why)
        return []

    # Requests

    def _on_message(self, client: Address, message: Message) -> list[Effect]:
        if not isinstance(message, Remember | Recall):
            return [Note("toy_foreign_message", type(message).__name__)]
        if self.state.phase is not Phase.SERVING:
            return [Send(client, Refused(message.request, self.state.phase.value))]
        if isinstance(message, Recall):
            return [Send(client, Recalled(message.request, list(self.state.values)))]
        if len(self.state.waiting) >= WAITING_MAX:
            return [Send(client, Refused(message.request, "too many requests at once"))]
        self.state.waiting.append(Asked(client, message.request, message.value))
        return [] if self.state.writing else self._write_batch()

    def _write_batch(self) -> list[Effect]:
        """What waits together travels together: one write, one sync, many answers."""
        state = self.state
        assert not state.writing, "one batch at a time"
        waited, state.waiting = state.waiting, []
        effects: list[Effect] = []
        for asked in waited:
            position = state.positions.get(asked.value)
            if position is not None and position < len(state.values):
                effects.append(Send(asked.client, Remembered(asked.request, position)))
                continue
            state.asking.append(asked)
            if position is None:
                state.positions[asked.value] = len(state.values) + len(state.writing)
                state.writing.append(asked.value)
        return effects + self._begin_write() if state.writing else effects

    def _begin_write(self) -> list[Effect]:
        state = self.state
        write = self._take_write_id()
        data = self._encode_batch()
        state.writing_bytes = len(data)
        effects: list[Effect] = [Write(write, JOURNAL, state.end_bytes, data)]
        after = None if self._acknowledge_early else write  # durable before promised
        for asked in state.asking:
            answer = Remembered(asked.request, state.positions[asked.value])
            effects.append(Send(asked.client, answer, after))
        return [*effects, Note("toy_batch")] if len(state.writing) > 1 else effects

    def _encode_batch(self) -> bytes:
        durable = len(self.state.values)  # what a reader may take for granted if this write is torn
        records = [
            encode_record(SALT, durable + index, VALUE_RECORD, value.encode(), durable)
            for index, value in enumerate(self.state.writing)
        ]
        return b"".join(records)

    def _on_written(self) -> list[Effect]:
        state = self.state
        if state.phase is Phase.CUTTING:
            state.phase = Phase.SERVING
            return []
        assert state.writing, "T2: a write is durable that nobody began"
        state.values += state.writing
        state.end_bytes += state.writing_bytes
        state.writing, state.asking = [], []
        return self._write_batch()

    def _on_write_failed(self, why: str) -> list[Effect]:
        """The disk is full and the file as it was; say so to those who wait, and go on."""
        if self.state.phase is Phase.CUTTING:
            return self._break(why)
        for value in self.state.writing:
            del self.state.positions[value]
        asking = self.state.asking
        self.state.writing, self.state.asking = [], []
        refusals = [Send(asked.client, Refused(asked.request, why)) for asked in asking]
        return [Note("toy_disk_full", why), *refusals, *self._write_batch()]

    def _take_write_id(self) -> WriteId:
        write = self.state.next_write
        self.state.next_write = WriteId(write + 1)
        return write

    # Starting

    def _on_read_back(self, data: bytes) -> list[Effect]:
        found = scan(data, SALT)
        if found.ending is Ending.DAMAGED:
            return self._break(f"the journal is damaged at byte {found.end_offset}")
        state = self.state
        state.values = [record.body.decode() for record in found.records]
        state.positions = {value: position for position, value in enumerate(state.values)}
        state.end_bytes = found.end_offset
        if found.ending is Ending.TORN:
            state.phase = Phase.CUTTING
            cut = Truncate(self._take_write_id(), JOURNAL, found.end_offset)
            return [Note("toy_torn_tail_cut", f"at byte {found.end_offset}"), cut]
        state.phase = Phase.SERVING
        return [Note("toy_recalled", f"{len(state.values)} values")] if state.values else []

    def _break(self, why: str) -> list[Effect]:
        self.state.phase = Phase.BROKEN
        return [Note("toy_broken", why)]

    # What a driver and a checker need

    def clone(self) -> Self:
        twin = type(self)(acknowledge_early=self._acknowledge_early)
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.state)

    def invariants(self) -> list[Violation]:
        state = self.state
        if state.phase is not Phase.SERVING and (state.writing or state.waiting):
            return [Violation("T3", f"takes requests while {state.phase.value}")]
        if (state.waiting or state.asking) and not state.writing:
            return [Violation("T2", "requests wait though the disk is idle")]
        if len(state.positions) != len(state.values) + len(state.writing):
            return [Violation("T4", "a value is kept twice, or a position is not")]
        return []
