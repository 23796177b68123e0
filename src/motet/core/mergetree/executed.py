"""What a replica keeps of the log: a file of what it has executed, and its ``log_pointer`` in the keeper.

L2  What was learned from entries is durable in the replica's own file before ``log_pointer`` passes them.
    It is written a moment after that, with what comes meanwhile: nobody waits for it.
L3  An entry below the pointer whose parts are not registered here is in ``queue``, whole: it is there with
    the same multi that moves the pointer.
L4  The pointer moves with the replica's next write, or after a second (T39). An entry that waits for nothing
    any more leaves the queue with it, or with the next tick.
L5  A multi takes so many entries and no more: until the others are queued, the pointer stays before them.
L6  What became of a multi that nobody answered for is read. The replica goes on meanwhile.
L7  The file names the incarnations of the keeper that it was written under (T38). When the keeper was
    restored, and its log is another one than was executed, the file begins anew (T1): its next write
    replaces it.
L8  The multi of the pointer checks the own ``host``: one of a former life would pass what the file of this
    one holds (R4).
"""

from __future__ import annotations

import re

import msgspec

from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import PartHeader, PublishEntry, decode_entry, encode_entry
from motet.core.mergetree.history import History
from motet.core.mergetree.paths import is_number
from motet.core.mergetree.state import PutPointer, ReadPointer
from motet.core.metadata.messages import (
    Check,
    Children,
    Conflict,
    Create,
    Delete,
    Failed,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.format.record import RECORD_VERSION, encode_record, parse_body, parse_header
from motet.ids import WriteId, Zxid

ENTRY_KIND = ord("e")
"""A record of the own file: one entry of the log as it was executed."""


INCARNATION_KIND = ord("i")
"""Another one: whose log the entries after it are of."""

_QUEUED = re.compile(r"[0-9]{10}")

incarnations_max = 100
"""That a file names: the last ones."""


class ExecutedEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The body of such a record; its sequence is the number."""

    zxid: Zxid
    data: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ExecutedEntry).decode
_decode_incarnations = msgspec.msgpack.Decoder(tuple[str, ...]).decode


# The file


def write_file(core: Core) -> None:
    """Make durable what was executed, and under whom; one write at a time (L2, L7)."""
    state = core.state
    if state.writing is not None or core.now_ns < state.write_again_ns:
        return
    is_named = state.written_incarnations == len(state.incarnations)
    if is_named and not _is_write_due(core):
        return
    state.write_due_ns = 0
    data = b"".join(_record(*each) for each in state.unwritten)
    if not is_named:
        body = _encode(state.incarnations[-incarnations_max:])
        data = encode_record(0, state.durable_number, INCARNATION_KIND, body) + data
    state.writing_incarnations = len(state.incarnations)
    state.writing_number = state.durable_number + len(state.unwritten)
    state.writing_bytes = len(data)
    state.writing = core.append_to_file(data)


def _is_write_due(core: Core) -> bool:
    """Whether enough has been executed, or it was long enough ago (L2)."""
    state = core.state
    if not state.unwritten or len(state.unwritten) >= core.config.unwritten_max:
        return bool(state.unwritten)
    if not state.write_due_ns:
        state.write_due_ns = core.later_ns(core.config.write_ms)
    if core.now_ns >= state.write_due_ns:
        return True
    core.node.write_soon(core.key)
    return False


def _record(number: int, zxid: Zxid, data: bytes) -> bytes:
    return encode_record(0, number, ENTRY_KIND, _encode(ExecutedEntry(zxid, data)))


def on_written(core: Core, write: WriteId) -> None:
    state = core.state
    if write != state.writing:
        return
    state.writing, state.durable_number = None, state.writing_number
    state.file_bytes += state.writing_bytes
    state.written_incarnations = state.writing_incarnations
    state.unwritten = [each for each in state.unwritten if each[0] >= state.durable_number]
    write_file(core)
    if not state.pointer_due_ns:
        state.pointer_due_ns = core.later_ns(core.config.pointer_ms)


def on_write_failed(core: Core, write: WriteId, why: str) -> None:
    """The disk is full: the entries stay unwritten, and the pointer where it is."""
    state = core.state
    if write == state.writing:
        state.writing, state.write_again_ns = None, core.later_ns(core.config.tick_ms)
        core.note("log_not_written", why)


def on_file_read(core: Core, data: bytes) -> None:
    """What a former life executed; a torn tail was never relied on."""
    state, at = core.state, 0
    history = History()
    while (header := parse_header(data, at)) is not None:
        body = parse_body(data, at, header)
        is_ours = header.version == RECORD_VERSION and header.sequence == history.next_number
        if body is None or not is_ours or not _take(core, history, header.kind, body):
            break
        at += header.record_bytes
    state.history, state.file_bytes, state.is_read = history, at, True
    state.durable_number = history.next_number
    state.written_incarnations = len(state.incarnations)


def _take(core: Core, history: History, kind: int, body: bytes) -> bool:
    """Take a record of the file; False: only a newer program knows what it says, and the log has it, too."""
    state = core.state
    if kind == INCARNATION_KIND:
        state.incarnations = _decode_incarnations(body)
        return True
    if kind != ENTRY_KIND:
        return False
    executed = _decode(body)
    try:
        entry = decode_entry(executed.data)
    except BadRecord as error:
        core.note("bad_entry", f"own file {history.next_number}: {error.what}")
        return False
    history.apply(history.next_number, executed.zxid, entry)
    state.last_entry = executed.data
    return True


def begin_anew(core: Core, incarnation: str) -> None:
    """L7: nothing of what was executed is in the keeper's log, as far as anybody can say."""
    state = core.state
    assert state.writing is None, "what is being written would follow"
    state.history, state.unwritten, state.last_entry = History(), [], b""
    state.file_bytes, state.durable_number = 0, 0
    state.incarnations, state.written_incarnations = (*state.incarnations, incarnation), 0


# The pointer


def pointer_operations(core: Core) -> tuple[PutPointer, list[WriteOperation]] | None:
    """What moves the pointer, and the queue with it (L3); None: it is where it can be."""
    state, own = core.state, core.own_paths
    if state.pointer_call is not None:
        return None
    waiting = _waiting(core, state.durable_number)
    new = sorted(number for number in waiting if number not in state.queued)
    gone = [number for number in state.queued if number not in waiting]
    queued, size = 0, 0
    operations: list[WriteOperation] = [Check(own.host, state.host_version)]
    for number in new[: core.config.batch_max]:
        data = encode_entry(PublishEntry(tuple(waiting[number]), ()))
        size += len(data)
        if queued and size > core.config.batch_bytes:
            break
        operations.append(Create(own.queued(number), data))
        queued += 1
    # L5: the pointer does not pass an entry that waits and is not queued.
    most = new[queued] if queued < len(new) else state.durable_number
    call = PutPointer(
        max(state.pointer, most), tuple(new[:queued]), tuple(gone[: core.config.batch_max])
    )
    if call == PutPointer(state.pointer, (), ()):
        return None
    operations += [Delete(own.queued(number), 0) for number in call.unqueued]
    data = str(call.pointer).encode()
    operations.append(Set(own.log_pointer, data, state.pointer_version))
    return call, operations


def _waiting(core: Core, pointer: int) -> dict[int, list[PartHeader]]:
    """Entries below the pointer, and those of their parts that are not here."""
    waiting: dict[int, list[PartHeader]] = {}
    for each in core.state.queue.values():
        if each.number < pointer:
            waiting.setdefault(each.number, []).append(each.header)
    return waiting


def is_pointer_due(core: Core) -> bool:
    """L4."""
    state = core.state
    if state.pointer_due_ns:
        return core.now_ns >= state.pointer_due_ns
    waiting = {each.number for each in state.queue.values()}
    return not waiting.issuperset(state.queued)


def put_pointer(core: Core) -> None:
    """Move the pointer by itself, when nothing has taken it along (L4)."""
    state = core.state
    state.pointer_due_ns = 0
    wanted = pointer_operations(core) if core.is_active else None
    if wanted is not None:
        state.pointer_call = core.write(wanted[0], *wanted[1])


def on_pointer(core: Core, call: PutPointer, answer: MetadataAnswer) -> None:
    state = core.state
    state.pointer_call = None
    if isinstance(answer, Written):
        note_pointer(core, call)
    elif isinstance(answer, Failed):
        state.pointer_due_ns = core.later_ns(core.config.pointer_ms)
    elif isinstance(answer, Conflict) and answer.index == 0:
        core.step_back("is started by another process")
    else:
        own = core.own_paths
        state.pointer_call = core.read(ReadPointer(), Get(own.log_pointer), Children(own.queue))


def on_pointer_read(core: Core, _call: ReadPointer, answer: MetadataAnswer) -> None:
    """L6. If the unknown multi comes later, the next one conflicts, and it is read again."""
    state = core.state
    state.pointer_call = None
    if isinstance(answer, ReadDone):
        pointer, queue = answer.results
        if isinstance(queue, Names) and isinstance(pointer, Found) and is_number(pointer.data):
            state.pointer, state.pointer_version = int(pointer.data), pointer.stat.version
            state.queued = queued_numbers(queue)
            state.pointer_due_ns = core.later_ns(core.config.pointer_ms)
            return
    core.step_back("its pointer is not what it wrote")


def queued_numbers(queue: Names) -> dict[int, None]:
    """The entries that are queued; what else is there is nobody's."""
    return {int(name): None for name in queue.names if _QUEUED.fullmatch(name)}


def note_pointer(core: Core, call: PutPointer) -> None:
    """The pointer and the queue are as they were asked for."""
    state = core.state
    state.pointer, state.pointer_version = call.pointer, state.pointer_version + 1
    for number in call.queued:
        state.queued[number] = None
    for number in call.unqueued:
        state.queued.pop(number, None)
    if not state.pointer_due_ns and pointer_operations(core) is not None:
        state.pointer_due_ns = core.later_ns(core.config.pointer_ms)
