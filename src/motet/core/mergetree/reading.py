"""Answering readers: the parts of a version, as of a head.

W1  "As of" is a pair: the replica executes the log up to the head of the client's read, then shows the blocks
    of the version through parts that it has. So an older version needs no other head.
W2  It answers only if its parts tile the version. What is missing is waited for up to a bound; then the error
    names the block and who brought it. A reader is never shown less than its version.
W3  A reader that waits for a part is looked at again when that is here: the parts are listed for an answer,
    not for each step.
W4  An eventual reader gets what is here (T40): blocks whose quorum is open too, failed and dropped ones not.
    Whoever is lost answers no reads, and nobody answers before its disk has been read.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import checks, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.history import BlockState, tile
from motet.core.mergetree.messages import ListedPart, ListParts, PartsListed
from motet.core.mergetree.names import PartName, of_block
from motet.core.mergetree.state import Phase, Reader
from motet.errors.tables import PartMissing, TableBusy, TableReadOnly
from motet.ids import Address


def take(core: Core, client: Address, message: ListParts) -> None:
    """A reader asks."""
    state = core.state
    is_behind = state.phase is Phase.READ_ONLY and message.head >= state.history.next_number
    is_unknown = message.is_eventual and not state.is_looked
    if state.is_lost or is_unknown or (is_behind and not message.is_eventual):
        why = f"this replica {state.why or 'is starting'}"
        core.refuse(client, message, TableReadOnly(why, hint="ask another replica"))
        return
    if message.is_eventual:
        _tell(core, client, message, _stored(core, is_eventual=True))
        return
    try:
        checks.check_room(core, len(core.state.readers))
    except TableBusy as error:
        core.refuse(client, message, error)
        return
    core.state.readers.append(Reader(client, message, core.now_ns))
    pulling.hear(core, message.head)


def look(core: Core) -> None:
    """Answer those whose version is here, and refuse those that have waited too long."""
    state = core.state
    if not state.readers:
        return
    waiting, state.readers = state.readers, []
    for reader in waiting:
        if not _answer(core, reader):
            state.readers.append(reader)


def _answer(core: Core, reader: Reader) -> bool:
    state, message = core.state, reader.message
    is_late = core.now_ns - reader.since_ns >= core.config.wait_ms * NS_PER_MS
    if state.history.next_number <= message.head:
        if is_late:
            done = state.history.next_number - 1
            what = f"this replica has executed the log up to {done} of {message.head}"
            core.refuse(reader.client, message, PartMissing(what))
        return is_late
    if reader.waits_for is not None and not is_late:
        own = state.parts.get(reader.waits_for)
        if own is None or not own.is_stored:
            return False
    names = _stored(core)
    tiling = tile(state.history, message.version, names)
    if not tiling.missing:
        _tell(core, reader.client, message, {name: names[name] for name in tiling.parts})
        return True
    reader.waits_for = tiling.missing[0].header.id
    if is_late:
        core.refuse(reader.client, message, PartMissing(_missing(core, tiling.missing[0])))
    return is_late


def _stored(core: Core, *, is_eventual: bool = False) -> dict[PartName, ListedPart]:
    """The parts that are here by their names; for eventual readers without those that nobody is to see."""
    names: dict[PartName, ListedPart] = {}
    for part, own in core.state.parts.items():
        block = core.state.history.of_part(part)
        if not own.is_stored or block is None:
            continue
        if is_eventual and (block.has_failed or block.dropped is not None):
            continue
        name = of_block(own.header.partition, block.block)
        names[name] = ListedPart(str(name), own.header)
    return names


def _tell(
    core: Core, client: Address, message: ListParts, names: dict[PartName, ListedPart]
) -> None:
    table, shard = core.key
    listed = tuple(names[name] for name in sorted(names))
    core.send(client, PartsListed(table, shard, message.request, listed))


def _missing(core: Core, block: BlockState) -> str:
    queued = core.state.queue.get(block.header.id)
    why = f": {queued.reason}" if queued is not None and queued.reason else ""
    return f"this replica lacks part {block.name}, which {', '.join(block.holders)} brought{why}"
