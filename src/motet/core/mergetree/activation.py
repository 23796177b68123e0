"""From a session with the keeper to an active replica.

A1  A process makes ``is_active`` under its session, with the id of its folder. It replaces a node with its
    own id at once, and never another's: the second process of one name stays read-only and says so (T36).
A2  ``host`` is raised with it, before disk and keeper are compared (R4). Every multi that names own parts
    checks the version of ``host``: what a former life has sent changes nothing when it comes late.
A3  A part that is registered and not on disk is deregistered before anything else, and leaves an open quorum
    in the same multi (T23); it is fetched then. What is on disk and not registered is put aside, and never
    removed (T37); a queue that names it finds it there (T24).
A4  The keeper's files may be an older copy: with a head below what this replica has executed it is read-only
    until a person says otherwise (T38).
"""

from __future__ import annotations

from motet.core.mergetree import executing, inserting, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import decode_entry, decode_status, encode_status, parts_of
from motet.core.mergetree.history import Standing
from motet.core.mergetree.state import (
    Activate,
    Compare,
    Deregister,
    InsertStep,
    LoadOwn,
    LoadQueue,
    OwnPart,
    Phase,
    ReadStatuses,
)
from motet.core.mergetree.work import NOBODY, Detach, Look, Looked
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
    Names,
    ReadDone,
    ReadOperation,
    Set,
    WatchOf,
    WriteOperation,
    Written,
)
from motet.ids import NodeId, PartId

ACTIVATION = (LoadOwn, Activate, Compare, ReadStatuses, Deregister, LoadQueue)
"""What is asked between a session and an active replica."""


def begin(core: Core) -> None:
    """A session has begun: read how things stand, if the own file has been read."""
    state = core.state
    if not state.is_read or not core.node.memory.session or state.phase is Phase.LOADING:
        return
    state.phase, state.why, state.look = Phase.LOADING, "reads its nodes", None
    # What an activation before this one has asked for is not about this one.
    for request, call in list(state.calls.items()):
        if isinstance(call, ACTIVATION):
            del state.calls[request]
    own = core.own_paths
    core.read(
        LoadOwn(),
        Get(own.host),
        Get(own.is_active),
        Get(own.is_lost),
        Get(own.log_pointer),
        Get(core.paths.log),
        Children(core.paths.replicas),
    )


def end(core: Core) -> None:
    """The session is over: what was asked under it is not answered any more (R4)."""
    state = core.state
    state.phase, state.why = Phase.WAITING, "has no session with the keeper"
    inserting.on_session_end(core)
    state.calls.clear()
    state.pulling, state.pointer_call, state.look = None, None, None
    state.host_version = -1


def on_own(core: Core, _call: LoadOwn, answer: MetadataAnswer) -> None:
    """A1, A4."""
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its nodes")
        return
    host, is_active, is_lost, pointer, log, replicas = answer.results
    state = core.state
    if not isinstance(host, Found) or not isinstance(pointer, Found) or not isinstance(log, Found):
        _read_only(core, "is unknown to the keeper")
        return
    assert isinstance(replicas, Names), "the parent of what was found"
    state.replicas = tuple(NodeId(name) for name in replicas.names)
    head = pulling.head_of(log.stat)
    if head < state.history.next_number - 1:
        done = state.history.next_number - 1
        _read_only(core, f"has executed entry {done}, and the keeper's log ends at {head}")
        return
    if isinstance(is_lost, Found) and is_lost.data == b"1":
        _read_only(core, "is lost: entries that it needs have been trimmed")
        return
    memory = core.node.memory
    folder = memory.folder.encode()
    operations: list[WriteOperation] = []
    if not isinstance(is_active, Found):
        operations.append(Create(core.own_paths.is_active, folder, ephemeral=True))
    elif is_active.stat.owner != memory.session:
        if is_active.data != folder:
            _read_only(core, "is served by another process")
            return
        operations.append(Delete(is_active.path, is_active.stat.version))
        operations.append(Create(core.own_paths.is_active, folder, ephemeral=True))
    state.phase, state.why = Phase.ACTIVATING, "makes itself known"
    state.pointer, state.pointer_version = int(pointer.data), pointer.stat.version
    operations.append(Set(host.path, memory.endpoint.encode(), host.stat.version))
    core.write(Activate(), *operations)


def on_activated(core: Core, _call: Activate, answer: MetadataAnswer) -> None:
    """A2: only now is it read what there is."""
    if not isinstance(answer, Written):
        _again(core, "could not make itself known")
        return
    state = core.state
    version = answer.results[-1]
    assert isinstance(version, int), "the set of host is the last operation"
    state.phase, state.why = Phase.COMPARING, "compares its disk with the keeper"
    state.host_version = version
    state.parts = {part: own for part, own in state.parts.items() if own.is_stored}
    state.queue, state.to_fail, state.queued, state.aside = {}, {}, {}, {}
    state.look = core.work(Look(*core.key), NOBODY)


def on_looked(core: Core, looked: Looked) -> None:
    """The disk has been read: now the keeper."""
    state = core.state
    state.look = None
    # What was stored for an insert, or has arrived, since the look was begun is not in what it says.
    kept = {
        insert.message.part.id
        for insert in state.inserts.values()
        if insert.step is not InsertStep.KEEPING
    }
    for part, own in state.parts.items():
        own.is_stored = own.is_stored and part in kept
    for header in looked.stored:
        own = state.parts.setdefault(header.id, OwnPart(header))
        own.is_stored, own.is_registered = True, False
    state.aside.update({header.id: header for header in looked.aside})
    paths = core.own_paths
    core.read(Compare(), Children(paths.parts), Children(paths.queue))


def on_compared(core: Core, _call: Compare, answer: MetadataAnswer) -> None:
    """A3."""
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its parts")
        return
    parts, queue = answer.results
    assert isinstance(parts, Names), "made with the replica"
    assert isinstance(queue, Names), "made with the replica"
    state = core.state
    for name in parts.names:
        known = state.parts.get(PartId(name))
        if known is not None and known.is_stored:
            known.is_registered = True
    state.queued = {int(name): None for name in queue.names}
    missing = tuple(
        PartId(name)
        for name in parts.names
        if not (PartId(name) in state.parts and state.parts[PartId(name)].is_stored)
    )
    if missing:
        core.read(ReadStatuses(missing), *(Get(core.paths.status(part)) for part in missing))
    else:
        _load_queue(core)


def on_statuses(core: Core, call: ReadStatuses, answer: MetadataAnswer) -> None:
    """A3: what is not here leaves the quorum that it was counted in."""
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its parts")
        return
    operations: list[WriteOperation] = [Check(core.own_paths.host, core.state.host_version)]
    for part, result in zip(call.parts, answer.results, strict=True):
        operations.append(Delete(core.own_paths.part(part), ANY_VERSION))
        if isinstance(result, Found):
            status = decode_status(result.data)
            members = tuple(member for member in status.members if member != core.own)
            left = encode_status(type(status)(status.wanted, members))
            operations.append(Set(result.path, left, result.stat.version))
    core.write(Deregister(call.parts), *operations)


def on_deregistered(core: Core, call: Deregister, answer: MetadataAnswer) -> None:
    """What is gone is fetched again, unless nobody wants it any more."""
    if isinstance(answer, Conflict):
        core.read(ReadStatuses(call.parts), *(Get(core.paths.status(part)) for part in call.parts))
        return
    if not isinstance(answer, Written):
        _again(core, "could not deregister its parts")
        return
    for part in call.parts:
        core.note("part_missing", part)
        core.state.parts.pop(part, None)
    _load_queue(core)


def _load_queue(core: Core) -> None:
    """Entries that were queued, whole: the log may have been trimmed of them (T35)."""
    reads: list[ReadOperation] = [Get(core.own_paths.queued(each)) for each in core.state.queued]
    if reads:
        core.read(LoadQueue(), *reads)
    else:
        _serve(core)


def on_queue(core: Core, _call: LoadQueue, answer: MetadataAnswer) -> None:
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its queue")
        return
    for result in answer.results:
        if isinstance(result, Found):
            number = int(result.path.rpartition("/")[2])
            executing.queue_parts(core, number, parts_of(decode_entry(result.data)))
    _serve(core)


def _serve(core: Core) -> None:
    """Take inserts and follow the log from now on."""
    state = core.state
    for block in state.history.blocks.values():
        part = block.header.id
        if block.standing in (Standing.OPEN, Standing.VISIBLE) and part not in state.queue:
            own = state.parts.get(part)
            if own is None or not own.is_registered:
                executing.queue_parts(core, block.block.entry, (block.header,))
    executing.resume(core)
    settled = {insert.message.part.id for insert in state.inserts.values()}
    for part, own in list(state.parts.items()):
        if not own.is_registered and part not in state.queue and part not in settled:
            # The log may still name it: it stays within reach until that is read (T24).
            core.work(Detach(*core.key, part, "not registered"), NOBODY)
            state.aside[part] = own.header
            del state.parts[part]
    state.phase, state.why = Phase.ACTIVE, ""
    if state.pointer < state.durable_number:
        state.pointer_due_ns = core.later_ns(core.config.pointer_ms)
    core.note("active", f"pointer {state.pointer}")
    core.watch(core.paths.log, WatchOf.CHILDREN)
    pulling.pull(core)


def _again(core: Core, why: str) -> None:
    """The keeper could not say: begin anew with the next tick."""
    core.state.phase, core.state.why = Phase.WAITING, why


def _read_only(core: Core, why: str) -> None:
    if core.state.why != why:
        core.note("read_only", why)
    core.state.phase, core.state.why = Phase.READ_ONLY, why
