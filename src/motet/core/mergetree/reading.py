"""Answering readers: the parts of a version, as of a head.

W1  "As of" is a pair: the replica executes the log up to the head of the client's read, then shows the blocks
    of the version through parts that it has. So an older version needs no other head.
W2  It answers only if its parts tile the page that is asked for (V6). What is missing is waited for up to a
    bound; then the error names the block and who brought it. A reader is never shown less than its version.
    What was dropped before it came here is not waited for: another replica may have it (E2).
W3  A reader that waits is looked at again when the first part that it misses is here: the parts are listed
    for an answer, not for each step.
W4  An eventual reader gets what is here (T40): blocks whose quorum is open too, failed and dropped ones not.
    Whoever is lost answers no reads, and nobody answers before its disk has been read.
W5  A part that is damaged, and that nobody else has, is ``BAD_RECORD`` for readers that need it (T37).
W6  Who has executed another log than the keeper has, or is asked for a version of another incarnation,
    answers no reader of a version: the same number names another state there (T1, T38).
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import checks, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.history import BlockStanding, BlockState
from motet.core.mergetree.messages import ListedPart, ListParts, PartsListed
from motet.core.mergetree.names import PartName, of_block, parse_part_name
from motet.core.mergetree.state import Phase, Reader
from motet.core.mergetree.tiling import is_after, partitions_from, tile
from motet.errors import BadRecord, MotetError
from motet.errors.tables import PartMissing, TableReadOnly
from motet.ids import Address


def take(core: Core, client: Address, message: ListParts) -> None:
    """A reader asks."""
    state = core.state
    is_behind = state.phase is Phase.READ_ONLY and message.head >= state.history.next_number
    is_unable = (
        not state.is_looked if message.is_eventual else is_behind or _is_foreign(core, message)
    )
    if state.is_lost or is_unable:
        why = f"this replica {state.why or 'is starting'}"
        core.refuse(client, message, TableReadOnly(why, hint="ask another replica"))
        return
    try:
        after = parse_part_name(message.after) if message.after else None
        checks.check_room(core, len(core.state.readers))
    except MotetError as error:
        core.refuse(client, message, error)
        return
    if message.is_eventual:
        names, more = _here(core, after)
        _tell(core, client, message, names, more)
        return
    core.state.readers.append(Reader(client, message, core.now_ns, after))
    pulling.hear(core, message.head)


def _is_foreign(core: Core, message: ListParts) -> bool:
    """W6."""
    own, asked = core.state.incarnations[-1:], message.incarnation
    return core.state.is_other_log or bool(own and asked and asked != own[0])


def refuse_all(core: Core, why: str) -> None:
    """W6: the versions that they wait for are of another log."""
    readers, core.state.readers = core.state.readers, []
    for reader in readers:
        error = TableReadOnly(f"this replica {why}", hint="read the table again")
        core.refuse(reader.client, reader.message, error)


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
    if _is_foreign(core, message):
        why = f"this replica {state.why}"
        core.refuse(reader.client, message, TableReadOnly(why, hint="ask another replica"))
        return True
    if state.history.next_number <= message.head:
        if is_late:
            done = state.history.next_number - 1
            what = f"this replica has executed the log up to {done} of {message.head}"
            core.refuse(reader.client, message, PartMissing(what))
        return is_late
    if not is_late and _waits(core, reader):
        return False
    tiling = tile(
        *(state.history, message.version, state.parts),
        after=reader.after,
        most=core.config.page_max,
    )
    if not tiling.missing:
        _tell(core, reader.client, message, tiling.parts, tiling.more)
        return True
    reader.missing = {each.header.id: None for each in tiling.missing}
    damaged = [each for each in tiling.missing if _is_damaged(core, each)]
    if damaged:
        core.refuse(reader.client, message, _damaged(core, damaged[0]))
        return True
    gone = next((each for each in tiling.missing if _is_gone(core, each)), None)
    if gone is not None or is_late:
        missing = tiling.missing[0] if gone is None else gone
        core.refuse(reader.client, message, PartMissing(_missing(core, missing)))
        return True
    return False


def _is_gone(core: Core, block: BlockState) -> bool:
    """W2: it was dropped, and nobody here waits for it any more."""
    is_dropped = block.standing is BlockStanding.DROPPED
    return core.is_active and is_dropped and block.header.id not in core.state.queue


def _waits(core: Core, reader: Reader) -> bool:
    """W3: whether the first of the parts that it misses may still come: it is not damaged, nor gone."""
    for part in list(reader.missing):
        own = core.state.parts.get(part)
        if own is None or not own.is_stored:
            broken, block = core.state.broken.get(part), core.state.history.of_part(part)
            is_gone = block is not None and _is_gone(core, block)
            return not is_gone and (broken is None or not broken.is_only)
        del reader.missing[part]
    return False


def _here(core: Core, after: PartName | None) -> tuple[list[PartName], bool]:
    """W4: a page of the parts that are here, and whether others follow."""
    state, most = core.state, core.config.page_max
    names: list[PartName] = []
    for partition in partitions_from(state.history, after):
        for block in state.history.partitions[partition]:
            known = state.history.blocks[block]
            own = state.parts.get(known.header.id)
            is_here = own is not None and own.is_stored and own.header.hash == known.header.hash
            is_shown = is_here and not known.has_failed and known.dropped is None
            if is_shown and is_after(after, partition, block):
                names.append(of_block(partition, block))
            if len(names) > most:
                return names[:most], True
    return names, False


def _tell(
    core: Core,
    client: Address,
    message: ListParts,
    names: list[PartName] | tuple[PartName, ...],
    more: bool,
) -> None:
    table, shard = core.key
    blocks = core.state.history.blocks
    listed = tuple(ListedPart(str(name), blocks[name.low].header) for name in names)
    core.send(client, PartsListed(table, shard, message.request, listed, more))


def _missing(core: Core, block: BlockState) -> str:
    queued = core.state.queue.get(block.header.id)
    if _is_gone(core, block):
        return f"this replica lacks part {block.name}, which was dropped"
    why = f": {queued.reason}" if queued is not None and queued.reason else ""
    return f"this replica lacks part {block.name}, which {', '.join(block.holders)} brought{why}"


def _is_damaged(core: Core, block: BlockState) -> bool:
    """W5."""
    broken = core.state.broken.get(block.header.id)
    return broken is not None and broken.is_only


def _damaged(core: Core, block: BlockState) -> BadRecord:
    what = f"part {block.name} ({block.header.id}) is damaged on {core.own}, and no active replica has it"
    hint = "start a replica that has it, put back its file, or drop its partition"
    return BadRecord(what, hint=hint)
