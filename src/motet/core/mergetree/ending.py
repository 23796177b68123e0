"""Ending blocks that get no quorum, and what they leave.

Q1  If no active replica has the part of an open quorum, whoever wants to join fails it: the multi deletes the
    status by its version, checks the host of every replica, appends ``failed``, and removes the token. Who
    these are is read at the same moment, and ``replicas`` is checked: whoever adds a replica sets it.
Q2  Below a drop or an overwrite an open block is failed without the hosts (T32): nobody joins it any more, so
    it would stay open, and retries of its token would wait for ever.
Q3  A part of a block that has failed is deregistered, then put aside. Nothing is removed. That it is not
    known to be registered says nothing: its registration may be unknown, and this later multi settles it.
Q5  What told that its rows are there goes with the failure: the token, or the number, and the hash of the
    content. The node above those that are deleted is set: whoever trims their window checks it.
Q4  What is to be ended follows from the history alone: whoever becomes active works it out again.
"""

from __future__ import annotations

from motet.core.mergetree import dedup, tokens
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import FailedEntry, encode_entry
from motet.core.mergetree.history import BlockState
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.queued import Step
from motet.core.mergetree.state import Ending, Fail, Leave, ReadToFail
from motet.core.mergetree.work import Detach
from motet.core.metadata.messages import (
    ANY_VERSION,
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
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.ids import PartId


def end_below(core: Core, number: int, partitions: tuple[str, ...] | None) -> None:
    """Q2: a drop, or an overwrite, ends what is open below it, and nobody waits for the rest (T30)."""
    state = core.state
    for block in state.history.open_below(number, partitions):
        state.to_fail[block.header.id] = Ending()
    state.todo.update(dict.fromkeys(state.queue))


def leave_if_failed(core: Core, part: PartId) -> None:
    """Q3, for a part of which it is known only now that it is registered."""
    block = core.state.history.of_part(part)
    if block is not None and block.has_failed:
        core.state.to_leave[part] = Ending()


def advance(core: Core) -> None:
    """What drops and failures of quorums leave to be done."""
    state = core.state
    for part, ending in list(state.to_fail.items()):
        block = state.history.of_part(part)
        if block is None or not block.is_open:
            del state.to_fail[part]
        elif not ending.is_asked and core.now_ns >= ending.again_ns:
            ending.is_asked = True
            read_to_fail(core, part, is_dropped=True)
    for part, ending in list(state.to_leave.items()):
        if part not in state.parts:
            del state.to_leave[part]
        elif not ending.is_asked and core.now_ns >= ending.again_ns:
            ending.is_asked = True
            check = Check(core.own_paths.host, state.host_version)
            core.write(Leave(part), check, Delete(core.own_paths.part(part), ANY_VERSION))


def _put_off(core: Core, ending: Ending | None) -> None:
    """The keeper has not done it: ask again with a later tick."""
    if ending is not None:
        ending.is_asked, ending.again_ns = False, core.later_ns(core.config.tick_ms)


# Failing a quorum


def read_to_fail(core: Core, part: PartId, *, is_dropped: bool) -> None:
    """Q1: the hosts first, then who is active: what is read is checked by its version."""
    block = core.state.history.of_part(part)
    token, producer = (None, None) if block is None else (block.token, block.producer)
    named = tokens.read_use(core.paths, token, producer)
    replicas = core.paths.replicas
    content = named
    if block is not None and block.dedup is not None:
        content = Get(core.paths.block_hash(block.header.partition, block.dedup))
    reads: list[ReadOperation] = [Get(core.paths.status(part)), named, content]
    reads += [Children(replicas), Get(replicas)]
    for node in core.state.replicas:
        paths = core.paths.replica(node)
        reads += [Get(paths.host), Get(paths.is_active), Get(paths.is_lost), Get(paths.part(part))]
    core.read(ReadToFail(part, core.state.replicas, is_dropped), *reads)


def on_read_to_fail(core: Core, call: ReadToFail, answer: MetadataAnswer) -> None:
    block = core.state.history.of_part(call.part)
    if block is None or not block.is_open:
        _not_failed(core, call, "its quorum has ended")
        return
    if not isinstance(answer, ReadDone):
        _not_failed(core, call, "the keeper did not answer")
        return
    found, token, content, names, replicas, *results = answer.results
    if not isinstance(found, Found):
        _not_failed(core, call, "its quorum has ended, and the log is to say how")
        return
    core.know_replicas(names)
    if core.state.replicas != call.replicas or not isinstance(replicas, Found):
        _not_failed(core, call, "there are other replicas")
        return
    hosts: list[WriteOperation] = []
    if not call.is_dropped:
        hosts.append(Check(replicas.path, replicas.stat.version))
    each = iter(results)
    for host, is_active, is_lost, part in zip(each, each, each, each, strict=False):
        is_there = isinstance(is_active, Found) and not (
            isinstance(is_lost, Found) and is_lost.data == b"1"
        )
        if not call.is_dropped and is_there and isinstance(part, Found):
            _not_failed(core, call, "a replica has come back with it")
            return
        if isinstance(host, Found) and not call.is_dropped:
            hosts.append(Check(host.path, host.stat.version))
    number = block.block.entry
    operations: list[WriteOperation] = [Delete(found.path, found.stat.version), *hosts]
    operations.append(Create(core.paths.failed_part(number)))
    operations.append(
        Create(core.paths.new_entry, encode_entry(FailedEntry(number)), sequential=True)
    )
    operations += _taken_back(core, block, token, content)
    core.write(Fail(call.part, call.is_dropped), *operations)


def _taken_back(
    core: Core, block: BlockState, token: ReadResult, content: ReadResult
) -> list[WriteOperation]:
    """Q5."""
    operations: list[WriteOperation] = []
    part = block.header.id
    try:
        if block.token is not None or block.producer is not None:
            back = tokens.take_back(token, part, block.number)
            operations += [] if back is None else [back]
        if block.dedup is not None:
            operations += dedup.take_back(content, part)
    except BadRecord as error:  # it says nothing of this block
        core.note("bad_token", f"{part}: {error.what}")
    parents = {core.paths.token(""): core.paths.tokens, f"{core.paths.blocks}/": core.paths.blocks}
    for operation in list(operations):
        for start, parent in parents.items():
            if isinstance(operation, Delete) and operation.path.startswith(start):
                operations.append(Set(parent, b"", ANY_VERSION))
    return operations


def on_failed(core: Core, call: Fail, answer: MetadataAnswer) -> None:
    """Done or not: the log says what became of the block."""
    if not isinstance(answer, Written):
        _not_failed(core, call, "others moved")
        return
    core.note("quorum_failed", call.part)
    told = [each for each in answer.results if isinstance(each, str) and "/log/log-" in each]
    core.tell_others(entry_number(told[0]))
    _not_failed(core, call, "its quorum is failed")


def _not_failed(core: Core, call: ReadToFail | Fail, why: str) -> None:
    """The block is open as far as is known here: look again later."""
    if call.is_dropped:
        _put_off(core, core.state.to_fail.get(call.part))
        return
    queued = core.state.queue.get(call.part)
    if queued is not None and queued.step is Step.FAILING:
        core.wait(queued, why)


# Leaving


def on_left(core: Core, call: Leave, answer: MetadataAnswer) -> None:
    """Q3: it is not registered any more."""
    own = core.state.parts.get(call.part)
    is_gone = isinstance(answer, Written) or (isinstance(answer, Conflict) and answer.index == 1)
    if own is not None and is_gone:
        del core.state.parts[call.part]
        core.state.to_leave.pop(call.part, None)
        core.put_away(Detach(*core.key, call.part, "its quorum has failed"))
    elif isinstance(answer, Conflict):
        core.step_back("is started by another process")
    else:
        _put_off(core, core.state.to_leave.get(call.part))
