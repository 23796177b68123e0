"""What the keeper holds of an ordered writer: its last step, and the versions of those before.

O1  A writer goes forward: a step is applied only if it begins where the last one ended and has the next
    epoch; a step that ends where the writer has been already is a repetition and changes nothing. It is told
    by the multi that publishes the step, which sets the writer's node by its version. It is never forgotten.
O2  A step's version is the zxid of its multi: for the last step that is the ``mzxid`` of the writer's node,
    which nothing else sets; its successor writes it down (T17).
O3  The newest steps are in the node itself. So many of them at a time move on into a node of their own below
    it, ``steps-<k>``, which holds the epochs from k times that on; the oldest of those go.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import PublishParts
from motet.core.mergetree.paths import writer_path
from motet.core.metadata.definitions import check_name
from motet.core.metadata.messages import (
    ANY_VERSION,
    Create,
    Delete,
    Found,
    ReadResult,
    Set,
    WriteOperation,
)
from motet.errors import BadInput, BadRecord, WriterFenced
from motet.ids import TableId, WriterName, Zxid

chunk_steps = 64
"""Steps in one node below the writer's."""

chunks_max = 10_000 // chunk_steps + 1
"""With the newest ones that makes 10,000 steps."""

_tables_max = 256
_epoch_max = (1 << 62) - 1


class StoredStep(msgspec.Struct, frozen=True, array_like=True):
    """A step, and its version; clocks are packed."""

    epoch: int
    after: int | None
    through: int
    version: Zxid


class WriterRecord(msgspec.Struct):
    """The data of a writer's node."""

    #: of the last step; -1: there was none
    epoch: int = -1
    after: int | None = None
    through: int = 0
    feed: int | None = None
    rows: int = 0
    steps: int = 0
    tables: tuple[TableId, ...] = ()
    #: the steps before the last one, as far as they are not in nodes of their own
    recent: tuple[StoredStep, ...] = ()
    #: the nodes ``steps-<k>`` that are there: from the first, before the next
    first_chunk: int = 0
    next_chunk: int = 0

    @property
    def has_step(self) -> bool:
        return self.epoch >= 0


encode_state = msgspec.json.Encoder().encode
encode_steps = msgspec.json.Encoder().encode
_state_decoder = msgspec.json.Decoder(WriterRecord)
_steps_decoder = msgspec.json.Decoder(tuple[StoredStep, ...])


def decode_state(data: bytes) -> WriterRecord:
    """Read a writer back; ``BadRecord`` for what is none."""
    try:
        return _state_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no ordered writer: {error}") from None


def decode_steps(data: bytes) -> tuple[StoredStep, ...]:
    """Read a chunk of steps back; ``BadRecord`` for what is none."""
    try:
        return _steps_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"these are no steps of a writer: {error}") from None


def steps_path(writer: WriterName, chunk: int) -> str:
    """The node of some former steps of a writer."""
    return f"{writer_path(writer)}/steps-{chunk}"


def note_path(writer: WriterName) -> str:
    """The node of a writer's last error: setting it does not touch the writer's own."""
    return f"{writer_path(writer)}/note"


def state_of(found: ReadResult) -> WriterRecord:
    """What is known of a writer; one that is not there has no step."""
    return decode_state(found.data) if isinstance(found, Found) else WriterRecord()


def last_step(found: ReadResult) -> StoredStep | None:
    """The last step with its version (O2)."""
    state = state_of(found)
    if not state.has_step or not isinstance(found, Found):
        return None
    return StoredStep(state.epoch, state.after, state.through, found.stat.mzxid)


def check_step(step: WriterStep) -> None:
    """``BadInput`` for what is no step."""
    check_name(step.writer, "an ordered writer")
    if not 0 <= step.epoch <= _epoch_max:
        raise BadInput(f"an epoch of {step.epoch} is not between 0 and {_epoch_max}")
    if step.after is not None and step.through <= step.after:
        raise BadInput(f"a step from {step.after} through {step.through} leads nowhere")


def is_repetition(found: ReadResult, step: WriterStep) -> bool:
    """O1; ``WriterFenced`` for a step that does not follow."""
    state = state_of(found)
    if not state.has_step:
        if step.epoch != 0 or step.after is not None:
            raise WriterFenced(
                f"{step.writer} has not published yet, so its first step has epoch 0 and begins"
                f" nowhere, not {step.epoch} after {step.after}"
            )
        return False
    if step.feed != state.feed:
        raise WriterFenced(
            f"{step.writer} reflects the feed of {_feed_name(state.feed)}, not of {_feed_name(step.feed)}"
        )
    through = Clock.from_int(state.through)
    if step.through <= through:
        return True
    if (step.epoch, step.after) != (state.epoch + 1, through):
        raise WriterFenced(
            f"{step.writer} is at epoch {state.epoch} and {through};"
            f" this was to be epoch {step.epoch}, after {step.after}"
        )
    return False


def _feed_name(feed: int | None) -> str:
    return "this database" if feed is None else f"database {feed:016x}"


def advance(found: ReadResult, message: PublishParts) -> list[WriteOperation]:
    """What the multi of the next step does to the writer's nodes."""
    step = message.step
    assert step is not None, "an ordered writer publishes a step"
    writer = WriterName(step.writer)
    state, last, path = state_of(found), last_step(found), writer_path(writer)
    operations: list[WriteOperation] = []
    if last is not None:
        state.recent = (*state.recent, last)
    if len(state.recent) >= chunk_steps:
        moved = encode_steps(state.recent)
        operations.append(Create(steps_path(writer, state.next_chunk), moved))
        state.recent, state.next_chunk = (), state.next_chunk + 1
    if state.next_chunk - state.first_chunk > chunks_max:
        operations.append(Delete(steps_path(writer, state.first_chunk), ANY_VERSION))
        state.first_chunk += 1
    state.epoch, state.feed = step.epoch, step.feed
    state.after = None if step.after is None else step.after.to_int()
    state.through = step.through.to_int()
    state.rows += sum(part.header.rows for each in message.tables for part in each.parts)
    state.steps += 1
    named = {*state.tables, *(each.table for each in message.tables)}
    state.tables = tuple(sorted(named)[:_tables_max])
    data = encode_state(state)
    if isinstance(found, Found):
        return [Set(path, data, found.stat.version), *operations]
    return [Create(path, data), *operations]
