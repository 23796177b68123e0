"""Executing entries: a replica gets the parts that they bring, registers them, and joins quorums.

E1  An entry whose part is here is not executed again: an own insert is registered by its own commit.
E2  A part of a block that has failed, or that lies below a drop, is not wanted any more (T30). But what is
    held here for a publication, or stored, is registered although it was dropped: versions in between have
    it, and no other replica may have it (T3).
E3  Parts may come in any order (T34). Each is looked for aside first (T24), then fetched from an active
    replica that has it, in turns: a full disk may be in the way of the only copy. Why one is not here yet is
    said in words.
E4  A part is registered when it is synced, in one multi that checks the own host. If its quorum is open the
    same multi joins it; the join that completes it deletes the status, appends ``done`` and raises
    ``last_part`` (T21). So exactly one member ends a quorum, once. Of a block in the queue whose entry has
    not been read since the own file began anew nobody here knows whether it is open: the keeper says so.
E5  A part whose bytes are being put away is neither here nor aside until that has ended. Whoever wants it
    waits: else it would be taken for stored while its bytes go.
E6  A part is its id and its hash. Bytes that somebody has sent under the id of another part are put aside.
E7  A step looks at those parts alone that something has happened to: it costs the same however many wait, or
    are here. What waits for a time is looked at with a tick.
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.core.mergetree import ending
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import (
    DoneEntry,
    DropEntry,
    Entry,
    FailedEntry,
    PartHeader,
    PublishEntry,
    QuorumStatus,
    decode_status,
    encode_entry,
    encode_header,
    encode_status,
    parts_of,
)
from motet.core.mergetree.history import BlockStanding, BlockState
from motet.core.mergetree.names import Block
from motet.core.mergetree.paths import entry_number, is_number
from motet.core.mergetree.queued import KnownQuorum, QueuedPart, Step
from motet.core.mergetree.state import Ending, Locate, OwnPart, ReadQuorum, Register
from motet.core.mergetree.work import Detach, Fetch, Keep
from motet.core.metadata.messages import (
    Check,
    Children,
    Conflict,
    Create,
    Delete,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadOperation,
    ReadResult,
    Refusal,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.ids import NodeId, PartId, WorkId, Zxid

coming_max = 4
"""Parts whose quorums are read with the log."""


def execute(core: Core, number: int, entry: Entry) -> None:
    """What an entry that has just been read asks of this replica."""
    queue_parts(core, number, parts_of(entry))
    if isinstance(entry, DropEntry):
        ending.end_below(core, number, entry.partitions)
    elif isinstance(entry, PublishEntry) and entry.replace:
        ending.end_below(core, number, entry.replace)
    elif isinstance(entry, FailedEntry):
        failed = core.state.history.blocks.get(Block(entry.number))
        if failed is not None and failed.has_failed:
            core.state.to_leave[failed.header.id] = Ending()
            core.state.todo[failed.header.id] = None


def resume(core: Core) -> None:
    """What the blocks that are known ask of a replica that has just become active."""
    state = core.state
    for block in state.history.blocks.values():
        part = block.header.id
        own = state.parts.get(part)
        is_registered = own is not None and own.is_registered
        if block.has_failed:
            state.to_leave[part] = Ending()
        elif block.is_open and block.dropped is not None:
            state.to_fail[part] = Ending()
        elif is_registered or part in state.queue:
            continue
        elif block.dropped is None or part in state.held:
            queue_parts(core, block.block.entry, (block.header,))


def queue_parts(core: Core, number: int, parts: Iterable[PartHeader]) -> None:
    """Want these parts, unless they are registered here (E1)."""
    for header in parts:
        own = core.state.parts.get(header.id)
        is_here = own is not None and own.is_registered
        if not is_here and header.id not in core.state.queue:
            core.state.queue[header.id] = QueuedPart(number, header)
            core.state.todo[header.id] = None


def on_tick(core: Core) -> None:
    """Look again at what has waited long enough."""
    core.state.coming.clear()
    for part, queued in core.state.queue.items():
        if queued.step is Step.WANTED and core.now_ns >= queued.again_ns:
            core.state.todo[part] = None


def advance(core: Core) -> None:
    """Do the next step for each part that something has happened to (E7)."""
    state = core.state
    todo, state.todo = state.todo, {}
    for part in todo:
        _advance(core, part)
    while state.line and len(state.fetching) < core.config.fetches_max:
        part = next(iter(state.line))
        del state.line[part]
        _advance(core, part)


def _advance(core: Core, part: PartId) -> None:
    state = core.state
    queued, own = state.queue.get(part), state.parts.get(part)
    if queued is None:
        return
    block = state.history.of_part(part)
    if own is not None and own.is_registered:
        unqueue(core, part)
    elif block is not None and is_unwanted(block) and not _is_kept(core, queued, block):
        if queued.step in (Step.WANTED, Step.STORED):
            # What is stored stays: a registration that is unknown may come late (R4).
            unqueue(core, part)
    else:
        if queued.step is Step.WANTED and core.now_ns >= queued.again_ns:
            _get(core, queued)
        if queued.step is Step.STORED:
            _join_or_register(core, queued, block)


def unqueue(core: Core, part: PartId) -> None:
    """It is not waited for any more."""
    state = core.state
    state.queue.pop(part, None)
    state.fetching.pop(part, None)


def is_unwanted(block: BlockState) -> bool:
    """E2."""
    return block.standing in (BlockStanding.FAILED, BlockStanding.DROPPED) or (
        block.is_open and block.dropped is not None
    )


def _is_kept(core: Core, queued: QueuedPart, block: BlockState) -> bool:
    """E2: it was seen before it was dropped, and its bytes are here."""
    is_here = queued.step is Step.STORED or queued.header.id in core.state.held
    return block.standing is BlockStanding.DROPPED and is_here


# Getting a part


def _get(core: Core, queued: QueuedPart) -> None:
    """E3: what is here first, then what has arrived, then others, so many at a time."""
    state, part = core.state, queued.header.id
    own = state.parts.get(part)
    if own is not None and own.is_stored:
        if own.header.hash == queued.header.hash:
            queued.step = Step.STORED
        elif core.insert_of(part) is not None:
            core.wait(queued, "other bytes are being inserted under its id")
        else:  # E6
            del state.parts[part]
            core.put_away(Detach(*core.key, part, "other bytes than the log names"))
            core.wait(queued, "its bytes are being put away")
        return
    if part in state.leaving.values():
        core.wait(queued, "its bytes are being put away")
        return
    is_aside_tried, queued.is_aside_tried = queued.is_aside_tried, False
    if (part in state.aside or part in state.held) and not is_aside_tried:
        queued.is_aside_tried = True
        queued.step, queued.reason = Step.FETCHING, "takes the bytes that have arrived"
        state.fetching[part] = None
        _store(core, queued, Keep(*core.key, queued.header))
        return
    if len(state.fetching) < core.config.fetches_max:
        _locate(core, queued)
    else:
        queued.reason = f"{len(state.fetching)} parts are being fetched"
        state.line[part] = None


def _locate(core: Core, queued: QueuedPart) -> None:
    """E3: ask the keeper who has it."""
    others = tuple(node for node in core.state.replicas if node != core.own)
    queued.step, queued.reason = Step.LOCATING, queued.reason or "looks who has it"
    core.state.fetching[queued.header.id] = None
    part = queued.header.id
    reads: list[ReadOperation] = [Children(core.paths.replicas)]
    for node in others:
        paths = core.paths.replica(node)
        reads += [Get(paths.is_active), Get(paths.is_lost), Get(paths.part(part))]
    core.read(Locate(part, others), *reads)


def _queued(core: Core, part: PartId, step: Step) -> QueuedPart | None:
    """The queued part if it is at this step: an answer that comes late leaves it alone."""
    queued = core.state.queue.get(part)
    return queued if queued is not None and queued.step is step else None


def on_located(core: Core, call: Locate, answer: MetadataAnswer) -> None:
    queued = _queued(core, call.part, Step.LOCATING)
    if queued is None:
        return
    if not isinstance(answer, ReadDone):
        core.wait(queued, "the keeper did not answer")
        return
    holders: list[NodeId] = []
    away: list[NodeId] = []
    names, *found = answer.results
    core.know_replicas(names)  # whoever is new is asked the next time
    results = iter(found)
    for node, is_active, is_lost, part in zip(
        call.replicas, results, results, results, strict=False
    ):
        if isinstance(part, Found):
            is_there = isinstance(is_active, Found) and not (
                isinstance(is_lost, Found) and is_lost.data == b"1"
            )
            (holders if is_there else away).append(node)
    if holders:
        source = holders[queued.tries % len(holders)]
        queued.step, queued.reason = Step.FETCHING, f"fetches it from {source}"
        _store(core, queued, Fetch(*core.key, queued.header, source))
        return
    block = core.state.history.of_part(call.part)
    if block is not None and block.is_open:
        queued.step, queued.reason = Step.FAILING, "no active replica has it"
        core.state.fetching.pop(call.part, None)
        ending.read_to_fail(core, call.part, is_dropped=False)
        return
    told = f"{', '.join(away)} has it and is not active" if away else "no replica has it"
    core.wait(queued, told)


def on_arrived(core: Core, header: PartHeader) -> None:
    """Bytes are aside; who has told of too many forgets the oldest, which a look would find again."""
    state = core.state
    own = state.parts.get(header.id)
    if own is None or not own.is_stored:
        state.aside[header.id] = header
        state.coming[header.id] = None
        if len(state.coming) > coming_max:
            del state.coming[next(iter(state.coming))]
        if len(state.aside) > core.config.aside_max:
            del state.aside[next(iter(state.aside))]


def _store(core: Core, queued: QueuedPart, task: Keep | Fetch) -> None:
    queued.work = core.work(task, task.part.id)
    core.state.storing[queued.work] = task.part


def on_stored(core: Core, part: PartId, work: WorkId) -> None:
    """The bytes of a part that was fetched, or had arrived, are synced."""
    state = core.state
    queued, header = state.queue.get(part), state.storing.pop(work, None)
    for known in (state.aside, state.coming, state.pushed, state.held):
        known.pop(part, None)
    if queued is not None and queued.work == work:
        state.parts[part] = OwnPart(queued.header, is_stored=True)
        queued.step, queued.reason, queued.work = Step.STORED, "", None
        state.fetching.pop(part, None)
        state.todo[part] = None
    elif header is not None and part not in state.parts:
        state.aside[part] = header  # whoever wants it stores it once more, which is fine


def on_not_stored(core: Core, part: PartId, work: WorkId, why: str) -> None:
    queued = core.state.queue.get(part)
    core.state.storing.pop(work, None)
    if queued is not None and queued.work == work:
        queued.work = None
        core.wait(queued, why)


def on_put_away(core: Core, part: PartId) -> None:
    """E5: whoever waits for it looks again at once."""
    queued = core.state.queue.get(part)
    if queued is not None and queued.step is Step.WANTED:
        queued.again_ns = core.now_ns
        core.state.todo[part] = None


# Registering it, and joining its quorum


def know_quorums(
    core: Core, zxid: Zxid, parts: tuple[PartId, ...], results: list[ReadResult]
) -> None:
    """What was read with the log: ``last_part``, and the quorums of these parts."""
    last_part, *statuses = results
    for part, status in zip(parts, statuses, strict=True):
        queued = core.state.queue.get(part)
        if queued is not None and isinstance(status, Found) and isinstance(last_part, Found):
            queued.quorum = KnownQuorum(zxid, status, last_part)


def _join_or_register(core: Core, queued: QueuedPart, block: BlockState | None) -> None:
    part = queued.header.id
    known, queued.quorum = queued.quorum, None
    if block is not None and block.is_open and known and known.zxid >= core.state.log_zxid:
        _join(core, queued, known.status, known.last_part)
    elif block is None or block.is_open:
        queued.step, queued.reason = Step.JOINING, "reads its quorum"
        core.read(ReadQuorum(part), Get(core.paths.status(part)), Get(core.paths.last_part))
    else:
        _register(core, queued, ())


def on_quorum(core: Core, call: ReadQuorum, answer: MetadataAnswer) -> None:
    """E4."""
    queued = _queued(core, call.part, Step.JOINING)
    if queued is None:
        return
    if not isinstance(answer, ReadDone):
        core.wait(queued, "the keeper did not answer")
        return
    block = core.state.history.of_part(call.part)
    if block is not None and is_unwanted(block):
        # It may be on its way out: registering it now would come after that.
        queued.step, core.state.todo[call.part] = Step.STORED, None
        return
    found, last_part = answer.results
    if not isinstance(found, Found):  # it has ended: the log says how
        _register(core, queued, ())
    elif not isinstance(last_part, Found):
        core.wait(queued, "the table is going")
    else:
        _join(core, queued, found, last_part)


def _join(core: Core, queued: QueuedPart, found: Found, last_part: Found) -> None:
    """E4: an older version than the keeper has is refused there."""
    try:
        status = decode_status(found.data)
    except BadRecord as error:
        core.wait(queued, error.what)
        return
    members = (*(member for member in status.members if member != core.own), core.own)
    if len(members) < status.wanted:
        data = encode_status(QuorumStatus(status.wanted, members))
        _register(core, queued, (Set(found.path, data, found.stat.version),))
        return
    if not is_number(last_part.data):
        core.wait(queued, "the table is going")
        return
    last = max(int(last_part.data), queued.number)
    done = encode_entry(DoneEntry(queued.number))
    operations = (
        Delete(found.path, found.stat.version),
        Set(last_part.path, str(last).encode(), last_part.stat.version),
        Create(core.paths.new_entry, done, sequential=True),
    )
    _register(core, queued, operations, ends=queued.number)


def _register(
    core: Core,
    queued: QueuedPart,
    joining: tuple[WriteOperation, ...],
    *,
    ends: int | None = None,
) -> None:
    part = queued.header.id
    queued.step, queued.reason = Step.REGISTERING, "registers it"
    header = encode_header(queued.header)
    core.write(
        Register(part, ends),
        Check(core.own_paths.host, core.state.host_version),
        Create(core.own_paths.part(part), header),
        *joining,
    )


def on_registered(core: Core, call: Register, answer: MetadataAnswer) -> None:
    state = core.state
    queued = _queued(core, call.part, Step.REGISTERING)
    if queued is None:
        return
    if isinstance(answer, Written):
        _is_registered(core, call.part)
        core.note("part_registered", f"{call.part} of {queued.number}")
        told = [each for each in answer.results if isinstance(each, str) and "/log/log-" in each]
        if told:
            core.tell_others(entry_number(told[0]))
        return
    if not isinstance(answer, Conflict):
        # If it was done, what there is says so the next time.
        core.wait(queued, "the keeper did not answer")
    elif answer.index == 0:
        core.step_back("is started by another process")
    elif answer.index == 1 and answer.why is Refusal.NODE_EXISTS:
        _is_registered(core, call.part)
    elif answer.index == 1:
        core.wait(queued, "the table is going")
    else:  # others joined meanwhile
        queued.step, state.todo[call.part] = Step.STORED, None


def _is_registered(core: Core, part: PartId) -> None:
    """The part is not waited for any more; if its block has failed meanwhile, it leaves again (Q3)."""
    state = core.state
    if part in state.parts:
        state.parts[part].is_registered = True
    unqueue(core, part)
    ending.leave_if_failed(core, part)
