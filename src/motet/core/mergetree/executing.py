"""Executing entries: a replica gets the parts that they bring, registers them, and joins quorums.

E1  An entry whose part is here is not executed again: an own insert is registered by its own commit.
E2  A part of a block that has failed, or that lies below a drop, is not wanted any more (T30).
E3  Parts may come in any order (T34). Each is looked for aside first (T24), then fetched from an active
    replica that has it. Why one is not here yet is said in words.
E4  A part is registered when it is synced, in one multi that checks the own host. If its quorum is open the
    same multi joins it; the join that completes it deletes the status, appends ``done`` and raises
    ``last_part`` (T21). So exactly one member ends a quorum, once.
E5  If no active replica has the part of an open quorum, whoever wants to join fails it: the multi deletes the
    status by its version, checks the host of every replica, appends ``failed``, and removes the token. Below
    a drop it is failed without the hosts (T32).
E6  A part of a block that has failed is deregistered, then put aside, also when it is not known whether it is
    registered. Nothing is removed.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from motet.core.mergetree.history import BlockState, Standing
from motet.core.mergetree.messages import LogHas
from motet.core.mergetree.names import Block
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.state import (
    Fail,
    Leave,
    Locate,
    OwnPart,
    Phase,
    QueuedPart,
    ReadQuorum,
    ReadToFail,
    Register,
    Step,
)
from motet.core.mergetree.work import NOBODY, Detach, Fetch, Keep
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadOperation,
    Set,
    WriteOperation,
    Written,
)
from motet.ids import NodeId, PartId


def execute(core: Core, number: int, entry: Entry) -> None:
    """What an entry that has just been read asks of this replica."""
    queue_parts(core, number, parts_of(entry))
    if isinstance(entry, DropEntry | PublishEntry):
        dropped = entry.partitions if isinstance(entry, DropEntry) else entry.replace
        for block in core.state.history.open_below(number, dropped):
            core.state.to_fail[block.header.id] = core.now_ns
    elif isinstance(entry, FailedEntry):
        failed = core.state.history.blocks.get(Block(entry.number))
        if failed is not None and failed.has_failed:
            core.state.to_leave[failed.header.id] = None


def is_registered(core: Core, part: PartId) -> None:
    """Its node is there. The log may have said meanwhile that its quorum has failed (E6)."""
    core.state.parts[part].is_registered = True
    core.state.queue.pop(part, None)
    block = core.state.history.of_part(part)
    if block is not None and block.has_failed:
        core.state.to_leave[part] = None


def resume(core: Core) -> None:
    """What a former life has executed and not carried out: ends of quorums below a drop, parts to leave."""
    state = core.state
    for block in state.history.blocks.values():
        if block.is_open and block.dropped is not None:
            state.to_fail[block.header.id] = core.now_ns
        elif block.has_failed:
            state.to_leave[block.header.id] = None


def on_left(core: Core, call: Leave, answer: MetadataAnswer) -> None:
    """E6: it is not registered any more."""
    own = core.state.parts.get(call.part)
    is_gone = isinstance(answer, Written) or (isinstance(answer, Conflict) and answer.index == 1)
    if own is not None and is_gone:
        del core.state.parts[call.part], core.state.to_leave[call.part]
        core.work(Detach(*core.key, call.part, "its quorum has failed"), NOBODY)


def queue_parts(core: Core, number: int, parts: Iterable[PartHeader]) -> None:
    """Want these parts, unless they are registered here (E1)."""
    for header in parts:
        own = core.state.parts.get(header.id)
        if own is None or not own.is_registered:
            core.state.queue[header.id] = QueuedPart(number, header)


def advance(core: Core) -> None:
    """Do the next step for each part that waits for none."""
    state = core.state
    for part, queued in list(state.queue.items()):
        block = state.history.of_part(part)
        own = state.parts.get(part)
        if own is not None and own.is_registered:
            del state.queue[part]
        elif block is not None and _is_unwanted(block):
            if queued.step in (Step.WANTED, Step.STORED):
                del state.queue[part]
        else:
            if queued.step is Step.WANTED and core.now_ns >= queued.again_ns:
                _get(core, queued)
            if queued.step is Step.STORED:
                _join_or_register(core, queued, block)
    _end_blocks(core)


def _end_blocks(core: Core) -> None:
    """What drops and failures of quorums leave to be done."""
    state = core.state
    for part, not_before_ns in list(state.to_fail.items()):
        block = state.history.of_part(part)
        if block is None or not block.is_open:
            del state.to_fail[part]
        elif core.now_ns >= not_before_ns and not _is_failing(core, part):
            # Whatever it comes to: the log is read before it is tried again.
            state.to_fail[part] = core.later_ns(core.config.tick_ms)
            _read_to_fail(core, part, is_dropped=True)
    for part in list(state.to_leave):
        if part not in state.parts:
            del state.to_leave[part]
        elif Leave(part) not in state.calls.values():
            check = Check(core.own_paths.host, state.host_version)
            core.write(Leave(part), check, Delete(core.own_paths.part(part), ANY_VERSION))


def _is_unwanted(block: BlockState) -> bool:
    """E2."""
    return block.standing in (Standing.FAILED, Standing.DROPPED) or (
        block.is_open and block.dropped is not None
    )


def _is_failing(core: Core, part: PartId) -> bool:
    return any(
        isinstance(call, ReadToFail | Fail) and call.part == part
        for call in core.state.calls.values()
    )


def _queued(core: Core, part: PartId, *steps: Step) -> QueuedPart | None:
    """The queued part if it is at one of these steps; what comes late, or for others, leaves it alone."""
    queued = core.state.queue.get(part)
    return queued if queued is not None and queued.step in steps else None


# Getting a part


def _get(core: Core, queued: QueuedPart) -> None:
    """E3: what is here first, then what has arrived, then others, so many at a time."""
    state, part = core.state, queued.header.id
    own = state.parts.get(part)
    if own is not None and own.is_stored:
        queued.step = Step.STORED
        return
    if part in state.aside and queued.tries % 2 == 0:
        queued.step, queued.reason = Step.FETCHING, "takes the bytes that have arrived"
        core.work(Keep(*core.key, queued.header), part)
        return
    fetching = sum(each.step in (Step.LOCATING, Step.FETCHING) for each in state.queue.values())
    if fetching < core.config.fetches_max:
        _locate(core, queued)
    else:
        queued.reason = f"{fetching} parts are being fetched"


def _locate(core: Core, queued: QueuedPart) -> None:
    """E3: ask the keeper who has it."""
    others = tuple(node for node in core.state.replicas if node != core.own)
    queued.step, queued.reason = Step.LOCATING, queued.reason or "looks who has it"
    part, reads = queued.header.id, []
    for node in others:
        paths = core.paths.replica(node)
        reads += [Get(paths.is_active), Get(paths.is_lost), Get(paths.part(part))]
    core.read(Locate(part, others), *reads)


def on_located(core: Core, call: Locate, answer: MetadataAnswer) -> None:
    queued = _queued(core, call.part, Step.LOCATING)
    if queued is None:
        return
    if not isinstance(answer, ReadDone):
        wait(core, queued, "the keeper did not answer")
        return
    holders: list[NodeId] = []
    away: list[NodeId] = []
    results = iter(answer.results)
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
        core.work(Fetch(*core.key, queued.header, source), call.part)
        return
    block = core.state.history.of_part(call.part)
    if block is not None and block.is_open:
        queued.step, queued.reason = Step.FAILING, "no active replica has it"
        _read_to_fail(core, call.part, is_dropped=False)
        return
    told = f"{', '.join(away)} has it and is not active" if away else "no replica has it"
    wait(core, queued, told)


def wait(core: Core, queued: QueuedPart, reason: str) -> None:
    """Look again with a later tick, each time somewhat later."""
    if queued.reason != reason:
        core.note("part_waits", f"{queued.header.id}: {reason}")
    queued.step, queued.reason = Step.WANTED, reason
    queued.tries += 1
    queued.again_ns = core.later_ns(core.config.tick_ms * min(queued.tries, 10))


def on_stored(core: Core, part: PartId) -> None:
    """The bytes of a part that was fetched, or had arrived, are synced."""
    state = core.state
    queued = _queued(core, part, Step.WANTED, Step.LOCATING, Step.FETCHING)
    state.aside.pop(part, None)
    if queued is None:
        return
    state.parts[part] = OwnPart(queued.header, is_stored=True)
    queued.step, queued.reason = Step.STORED, ""


def on_not_stored(core: Core, part: PartId, why: str) -> None:
    """What is aside stays in reach: perhaps there was no room for it. The next try asks others."""
    queued = _queued(core, part, Step.FETCHING)
    if queued is not None:
        wait(core, queued, why)


# Registering it, and joining its quorum


def _join_or_register(core: Core, queued: QueuedPart, block: BlockState | None) -> None:
    part = queued.header.id
    if block is not None and block.is_open:
        queued.step, queued.reason = Step.JOINING, "reads its quorum"
        core.read(ReadQuorum(part), Get(core.paths.status(part)), Get(core.paths.last_part))
    else:
        _register(core, queued, ())


def on_quorum(core: Core, call: ReadQuorum, answer: MetadataAnswer) -> None:
    """E4."""
    queued = _queued(core, call.part, Step.JOINING)
    if queued is None:
        return
    block = core.state.history.of_part(call.part)
    if block is not None and _is_unwanted(block):
        queued.step = Step.STORED
        return
    if not isinstance(answer, ReadDone):
        wait(core, queued, "the keeper did not answer")
        return
    found, last_part = answer.results
    if not isinstance(found, Found):  # it has ended: the log says how
        _register(core, queued, ())
        return
    status = decode_status(found.data)
    members = (*(member for member in status.members if member != core.own), core.own)
    if len(members) < status.wanted:
        data = encode_status(QuorumStatus(status.wanted, members))
        _register(core, queued, (Set(found.path, data, found.stat.version),))
        return
    assert isinstance(last_part, Found), "made with the shard"
    last = max(int(last_part.data), queued.number)
    done = encode_entry(DoneEntry(queued.number))
    operations = (
        Delete(found.path, found.stat.version),
        Set(last_part.path, str(last).encode(), last_part.stat.version),
        Create(core.paths.new_entry, done, sequential=True),
    )
    _register(core, queued, operations)


def _register(core: Core, queued: QueuedPart, joining: tuple[WriteOperation, ...]) -> None:
    part = queued.header.id
    queued.step, queued.reason = Step.REGISTERING, "registers it"
    header = encode_header(queued.header)
    core.write(
        Register(part),
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
        is_registered(core, call.part)
        core.note("part_registered", f"{call.part} of {queued.number}")
        told = [each for each in answer.results if isinstance(each, str) and "/log/log-" in each]
        if told:
            tell_others(core, entry_number(told[0]))
        return
    # A conflict: others joined meanwhile, or it is registered already. Unknown: look at what there is.
    queued.step = Step.STORED
    if isinstance(answer, Conflict) and answer.index == 1:
        is_registered(core, call.part)
    elif isinstance(answer, Conflict) and answer.index == 0:
        state.phase, state.why = Phase.WAITING, "is started by another process"


def tell_others(core: Core, number: int) -> None:
    """A hint that the log has an entry, so that nobody waits for a watch."""
    core.state.head_heard = max(core.state.head_heard, number)
    table, shard = core.key
    for node in core.state.replicas:
        if node != core.own:
            core.send(node, LogHas(table, shard, number))


# Failing a quorum


def _read_to_fail(core: Core, part: PartId, *, is_dropped: bool) -> None:
    """E5: the hosts first, then who is active: what is read is checked by its version."""
    reads: list[ReadOperation] = [Get(core.paths.status(part))]
    for node in core.state.replicas:
        paths = core.paths.replica(node)
        reads += [Get(paths.host), Get(paths.is_active), Get(paths.is_lost), Get(paths.part(part))]
    core.read(ReadToFail(part, is_dropped), *reads)


def on_read_to_fail(core: Core, call: ReadToFail, answer: MetadataAnswer) -> None:
    state = core.state
    queued, block = _queued(core, call.part, Step.FAILING), state.history.of_part(call.part)
    if block is None or not block.is_open:
        if queued is not None:
            wait(core, queued, "its quorum has ended")
        return
    if not isinstance(answer, ReadDone):
        if queued is not None:
            wait(core, queued, "the keeper did not answer")
        return
    found, *results = answer.results
    if not isinstance(found, Found):
        if queued is not None:
            wait(core, queued, "its quorum has ended, and the log is to say how")
        return
    hosts: list[WriteOperation] = []
    each = iter(results)
    for host, is_active, is_lost, part in zip(each, each, each, each, strict=False):
        is_there = isinstance(is_active, Found) and not (
            isinstance(is_lost, Found) and is_lost.data == b"1"
        )
        if not call.is_dropped and is_there and isinstance(part, Found):
            if queued is not None:
                wait(core, queued, "a replica has come back with it")
            return
        if isinstance(host, Found) and not call.is_dropped:
            hosts.append(Check(host.path, host.stat.version))
    number = block.block.entry
    operations: list[WriteOperation] = [Delete(found.path, found.stat.version), *hosts]
    operations.append(Create(core.paths.failed_part(number)))
    operations.append(
        Create(core.paths.new_entry, encode_entry(FailedEntry(number)), sequential=True)
    )
    if block.token is not None:
        operations.append(Delete(core.paths.token(block.token), 0))
    core.write(Fail(call.part), *operations)


def on_failed(core: Core, call: Fail, answer: MetadataAnswer) -> None:
    """Done or not: the log says what became of the block."""
    queued = _queued(core, call.part, Step.FAILING)
    if isinstance(answer, Written):
        core.note("quorum_failed", call.part)
        told = [each for each in answer.results if isinstance(each, str) and "/log/log-" in each]
        tell_others(core, entry_number(told[0]))
    if queued is not None:
        wait(
            core, queued, "its quorum is failed" if isinstance(answer, Written) else "others moved"
        )
