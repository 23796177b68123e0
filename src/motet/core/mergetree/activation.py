"""From a session with the keeper to an active replica.

A1  A process makes ``is_active`` under its session, with the id of its folder. It replaces a node with its
    own id at once, and never another's: the second process of one name stays read-only and says so (T36).
A2  ``host`` is raised with it, before disk and keeper are compared (R4). Every multi that names own parts
    checks the version of ``host``: what a former life has sent changes nothing when it comes late.
A3  A part that is registered and not on disk is deregistered before anything else, and leaves an open quorum
    in the same multi (T23); it is fetched then, unless it is dropped. A damaged one stays registered, and is
    looked after later (``damage``). What is on disk and not registered is put aside, where a queue that names
    it finds it (T24); what is dropped goes. Nothing else is removed (T37).
A4  The keeper's files may be an older copy: with a head below what this replica has executed, or with another
    entry where it has executed one, or of an incarnation that this replica has left behind, it is read-only
    until a person draws a new incarnation (T38). Under a new one whatever log the keeper has is right: if
    it is another one the own file begins anew, and parts above it are put aside (T1).
A5  Whoever is lost is not active (T23): the multi that raises ``host`` checks that ``is_lost`` is what was
    read. Whoever marks it lost checks ``host``, so one of the two comes first.
A6  If the own file holds less than the pointer says, the pointer goes back with that multi: what is read of
    the log again must not be trimmed meanwhile (L2).
A7  A replica that begins anew takes no answer of the attempt before; only inserts and drops that are under
    way still hear of theirs.
A8  Of a stored part that is registered, and whose block is known and not open, the name of its folder is
    enough: it was synced before it was registered. The manifests of all others are read before the replica
    is active; those of the rest afterwards, some with each tick (F6), so that a start costs little.
"""

from __future__ import annotations

from motet.core.mergetree import (
    damage,
    executed,
    executing,
    finding,
    inserting,
    pulling,
    reading,
    staging,
)
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import (
    PartHeader,
    as_logged,
    decode_entry,
    decode_header,
    parts_of,
)
from motet.core.mergetree.history import BlockStanding
from motet.core.mergetree.paths import is_number
from motet.core.mergetree.state import (
    Activate,
    Broken,
    CommitDrop,
    CommitInsert,
    Compare,
    Deregister,
    LoadOwn,
    LoadQueue,
    OwnPart,
    Phase,
    ReadForDrop,
    ReadForInsert,
    ReadStatuses,
    SettleRead,
    SettleWrite,
    WatchLog,
)
from motet.core.mergetree.work import NOBODY, Detach, Forget, LookAtDisk, LookAtParts, Looked
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
    ReadResult,
    Set,
    WatchOf,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.ids import NodeId, PartId, Zxid

OUTLAST = (
    *(ReadForInsert, CommitInsert, SettleWrite, SettleRead),
    *(ReadForDrop, CommitDrop, WatchLog),
)
"""Calls whose answers count whatever the replica does meanwhile (A7)."""


def begin(core: Core) -> None:
    """A session has begun: read how things stand, if the own file has been read."""
    state, memory = core.state, core.node.memory
    if not state.is_read or not memory.session or not memory.incarnation:
        return
    if state.phase is Phase.LOADING:
        return
    state.phase, state.why = Phase.LOADING, "reads its nodes"
    state.log_zxid = Zxid(0)
    state.calls = {each: call for each, call in state.calls.items() if isinstance(call, OUTLAST)}
    state.pulling, state.pointer_call, state.look = None, None, None
    state.sweep, state.sweeps_left, state.listed = None, [], None
    own = core.own_paths
    core.read(
        LoadOwn(),
        Get(own.host),
        Get(own.is_active),
        Get(own.is_lost),
        Get(own.log_pointer),
        Get(core.paths.log),
        Get(core.paths.entry(max(state.history.next_number - 1, 0))),
        Children(core.paths.replicas),
    )


def end(core: Core) -> None:
    """The session is over: what was asked under it is not answered any more (R4)."""
    state = core.state
    state.phase, state.why = Phase.WAITING, "has no session with the keeper"
    inserting.on_session_end(core)
    staging.on_session_end(core)
    finding.on_session_end(core)
    state.calls.clear()
    state.pulling, state.pointer_call, state.look = None, None, None
    state.sweep, state.sweeps_left, state.listed = None, [], None
    state.host_version = -1


def on_own(core: Core, _call: LoadOwn, answer: MetadataAnswer) -> None:
    """A1, A4."""
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its nodes")
        return
    host, is_active, is_lost, pointer, log, last, replicas = answer.results
    state = core.state
    if not isinstance(host, Found) or not isinstance(pointer, Found) or not isinstance(log, Found):
        _read_only(core, "is unknown to the keeper")
        return
    if not is_number(pointer.data):
        _read_only(core, "has a log_pointer in the keeper that is no number")
        return
    if not isinstance(is_lost, Found) or not isinstance(replicas, Names):
        _read_only(core, "is unknown to the keeper")
        return
    state.replicas = tuple(NodeId(name) for name in replicas.names)
    if not _is_own_log(core, pulling.head_of(log.stat), last):
        return
    state.is_lost, state.is_lost_version = says_lost(is_lost), is_lost.stat.version
    if state.is_lost:
        _read_only(core, "is lost: entries that it needs have been trimmed")
        return
    memory = core.node.memory
    folder = memory.folder.encode()
    operations: list[WriteOperation] = [Check(is_lost.path, is_lost.stat.version)]
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
    if state.pointer > state.durable_number:
        state.pointer, state.pointer_version = state.durable_number, pointer.stat.version + 1
        data = str(state.pointer).encode()
        operations.append(Set(pointer.path, data, pointer.stat.version))
    operations.append(Set(host.path, memory.endpoint.encode(), host.stat.version))
    core.write(Activate(), *operations)


def says_lost(found: Found) -> bool:
    """A5: what ``is_lost`` says."""
    return found.data == b"1"


def _is_own_log(core: Core, head: int, last: ReadResult) -> bool:
    """A4: whether the keeper has the log that was executed here, or one that is to be executed now."""
    state, incarnation = core.state, core.node.memory.incarnation
    why = _why_other(core, head, last)
    state.is_other_log = why is not None
    if incarnation in state.incarnations[:-1]:
        now = state.incarnations[-1]
        why = f"has executed the log of incarnation {now}, and the keeper is of the former {incarnation}"
        state.is_other_log = True
    is_new = bool(state.incarnations) and incarnation not in state.incarnations
    if why is not None and is_new:
        if state.writing is not None:
            _again(core, "waits for its file")
            return False
        core.note("begins_anew", f"under incarnation {incarnation}: it {why}")
        executed.begin_anew(core, incarnation)
        reading.refuse_all(core, "begins anew with the log of a keeper that was restored")
        state.is_other_log = False
    elif why is not None:
        _read_only(core, f"{why}: its files are an older copy, until a new incarnation is drawn")
        return False
    elif incarnation not in state.incarnations:
        state.incarnations = (*state.incarnations, incarnation)
    return True


def _why_other(core: Core, head: int, last: ReadResult) -> str | None:
    """What tells that the keeper's log is not the one that was executed; None: nothing does."""
    state = core.state
    done = state.history.next_number - 1
    if head < done:
        return f"has executed entry {done}, and the keeper's log ends at {head}"
    if done < 0 or not isinstance(last, Found):
        return None  # it has been trimmed
    try:
        is_same = decode_entry(last.data) == as_logged(decode_entry(state.last_entry))
    except BadRecord:
        is_same = False
    if is_same and last.stat.czxid == state.history.zxid:
        return None
    return f"has executed another entry {done} than the keeper's log has"


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
    state.damaged.update((part, None) for part, own in state.parts.items() if own.is_broken)
    state.parts = {part: own for part, own in state.parts.items() if own.is_stored}
    state.broken = {}
    state.queue, state.to_fail, state.to_leave, state.queued = {}, {}, {}, {}
    state.todo, state.fetching, state.line = {}, {}, {}
    state.aside = {}  # what arrives from now on may come too late for the look
    state.look, state.look_ns = core.work(LookAtDisk(*core.key), NOBODY), core.now_ns


def on_looked(core: Core, looked: Looked) -> None:
    """The disk has been read: now the keeper."""
    state = core.state
    if state.listed is not None:
        _on_looked_again(core, looked, state.listed)
        return
    state.look = None
    known = {part for part, own in state.parts.items() if own.is_stored}
    # What was stored for an insert since the look was begun is not in what it says.
    kept = {insert.message.part.id for insert in state.inserts.values() if insert.work is None}
    for part, own in state.parts.items():
        own.is_stored = own.is_stored and part in kept
    # Of what was known to be damaged a look says nothing: it does not read the bytes.
    stored = {header.id: header for header in looked.stored}
    damaged = [each for each in (*stored, *looked.named) if each in state.damaged]
    state.damaged = dict.fromkeys((*damaged, *looked.broken))
    read_before = known.difference(state.named)
    state.named = {}
    for part, header in stored.items():
        if part not in state.damaged:
            _is_stored(core, header)
    for part in looked.named:
        if part in known and part not in state.damaged:
            _is_stored(core, state.parts[part].header)
        if part not in read_before and part not in state.damaged:
            state.named[part] = None
    state.aside.update({header.id: header for header in looked.aside})
    staging.on_looked(core, looked)
    paths = core.own_paths
    core.read(Compare(), Children(paths.parts), Children(paths.queue))


def on_compared(core: Core, _call: Compare, answer: MetadataAnswer) -> None:
    """A3."""
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its parts")
        return
    parts, queue = answer.results
    if not isinstance(parts, Names) or not isinstance(queue, Names):
        _again(core, "is unknown to the keeper")
        return
    state = core.state
    state.queued = executed.queued_numbers(queue)
    listed = tuple(map(PartId, parts.names))
    _trust_names(core, listed)
    unknown = tuple(part for part in state.named if part not in state.parts)
    if unknown:
        state.listed = listed
        state.look = core.work(LookAtParts(*core.key, unknown), NOBODY)
    else:
        _on_listed(core, listed)


def _trust_names(core: Core, listed: tuple[PartId, ...]) -> None:
    """A8: what the log says of a part that is registered is what is stored under its name."""
    state = core.state
    for part in listed:
        if part in state.named and part not in state.parts:
            block = state.history.of_part(part)
            if block is not None and not block.is_open:
                state.parts[part] = OwnPart(block.header, is_stored=True)


def _on_looked_again(core: Core, looked: Looked, listed: tuple[PartId, ...]) -> None:
    """A8: the manifests of the others have been read; those that have gone meanwhile are missing."""
    state = core.state
    state.look, state.listed = None, None
    state.damaged.update(dict.fromkeys(looked.broken))
    for header in looked.stored:
        if header.id not in state.damaged:
            _is_stored(core, header)
    read = {header.id for header in looked.stored}
    state.named = {part: None for part in state.named if part in state.parts and part not in read}
    _on_listed(core, listed)


def _is_stored(core: Core, header: PartHeader) -> None:
    own = core.state.parts.setdefault(header.id, OwnPart(header))
    own.is_stored, own.is_registered = True, False


def _on_listed(core: Core, listed: tuple[PartId, ...]) -> None:
    """A3: all that is stored is known, and what is registered."""
    state = core.state
    state.is_looked = True
    missing: list[PartId] = []
    for part in listed:
        own = state.parts.get(part)
        if own is not None and own.is_stored:
            own.is_registered = True
        else:
            missing.append(part)
    _deregister(core, tuple(missing))


def _deregister(core: Core, missing: tuple[PartId, ...]) -> None:
    """A3, for so many parts at a time as fit into a multi."""
    parts, left = missing[: core.config.batch_max], missing[core.config.batch_max :]
    if parts:
        own, paths = core.own_paths, core.paths
        reads = [Get(path) for part in parts for path in (own.part(part), paths.status(part))]
        core.read(ReadStatuses(parts, left), *reads)
    else:
        _load_queue(core, tuple(core.state.queued))


def on_statuses(core: Core, call: ReadStatuses, answer: MetadataAnswer) -> None:
    """A3: what is not here leaves the quorum that it was counted in."""
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its parts")
        return
    gone: list[PartId] = []
    operations: list[WriteOperation] = [
        Check(core.own_paths.host, core.state.host_version),
        Set(core.own_paths.is_lost, b"0", core.state.is_lost_version),
    ]
    each = iter(answer.results)
    for part, own, status in zip(call.parts, each, each, strict=True):
        if part in core.state.damaged and not isinstance(status, Found) and _keep(core, own):
            continue
        if not isinstance(own, Found) or own.stat.children:
            core.note("bad_part", f"{part}: it is gone, or has nodes below it")
            core.state.parts.pop(part, None)
            continue  # it cannot be deleted: it is let alone, and nobody is kept waiting
        gone.append(part)
        operations.append(Delete(core.own_paths.part(part), ANY_VERSION))
        if isinstance(status, Found):
            try:
                operations.append(damage.left_by(core.own, status))
            except BadRecord as error:
                core.note("bad_status", f"{part}: {error.what}")
    if gone:
        core.write(Deregister(tuple(gone), call.left), *operations)
    else:
        _deregister(core, call.left)


def _keep(core: Core, own: ReadResult) -> bool:
    """A damaged part stays registered, until it is known who else has it; False: nobody knows what it is."""
    if not isinstance(own, Found):
        return False
    try:
        header = decode_header(own.data)
    except BadRecord as error:
        core.note("bad_part", error.what)
        return False
    core.state.parts[header.id] = OwnPart(header, is_registered=True, is_broken=True)
    core.state.broken[header.id] = Broken()
    core.note("part_broken", header.id)
    return True


def on_deregistered(core: Core, call: Deregister, answer: MetadataAnswer) -> None:
    """What is gone is fetched again, unless nobody wants it any more."""
    if isinstance(answer, Conflict) and answer.index > 1:
        _deregister(core, call.parts + call.left)
        return
    if not isinstance(answer, Written):
        _again(core, "could not deregister its parts")
        return
    state = core.state
    state.is_lost_version += 1
    for part in call.parts:
        core.note("part_missing", part)
        state.parts.pop(part, None)
    _deregister(core, call.left)


def _load_queue(core: Core, numbers: tuple[int, ...]) -> None:
    """Entries that were queued, whole: the log may have been trimmed of them (T35)."""
    some, left = numbers[: core.config.batch_max], numbers[core.config.batch_max :]
    if some:
        core.read(LoadQueue(left), *(Get(core.own_paths.queued(each)) for each in some))
    else:
        _serve(core)


def on_queue(core: Core, call: LoadQueue, answer: MetadataAnswer) -> None:
    if not isinstance(answer, ReadDone):
        _again(core, "could not read its queue")
        return
    for result in answer.results:
        if isinstance(result, Found):
            number = int(result.path.rpartition("/")[2])
            try:
                entry = decode_entry(result.data)
            except BadRecord as error:  # the history has its parts, unless the log was trimmed
                core.note("bad_entry", f"queue {number}: {error.what}")
                continue
            executing.queue_parts(core, number, parts_of(entry))
    _load_queue(core, call.left)


def _serve(core: Core) -> None:
    """Take inserts and follow the log from now on."""
    state = core.state
    executing.resume(core)
    _put_away_unexpected(core)
    state.phase, state.why, state.noted = Phase.ACTIVE, "", ""
    state.pointer_due_ns = core.later_ns(core.config.pointer_ms)
    core.note("active", f"pointer {state.pointer}")
    core.watch(core.paths.log, WatchOf.CHILDREN)
    pulling.pull(core)


def _put_away_unexpected(core: Core) -> None:
    """A3: what is on disk, and not registered."""
    state = core.state
    settled = {insert.message.part.id for insert in state.inserts.values()}
    for part in state.damaged:
        if part not in state.parts and part not in settled:
            core.put_away(Detach(*core.key, part, "damaged, and not registered"))
    state.damaged = {}
    for part, own in list(state.parts.items()):
        if own.is_registered or part in state.queue or part in settled:
            continue
        block = state.history.of_part(part)
        if block is not None and block.standing is BlockStanding.DROPPED:
            core.put_away(Forget(*core.key, part))
        else:  # The log may still name it: it stays within reach until that is read (T24).
            core.put_away(Detach(*core.key, part, "not registered"))
            state.aside[part] = own.header
        del state.parts[part]


def _again(core: Core, why: str) -> None:
    """The keeper could not say: begin anew with the next tick."""
    core.step_back(why)


def _read_only(core: Core, why: str) -> None:
    if core.state.noted != why:
        core.note("read_only", why)
    core.state.phase, core.state.why, core.state.noted = Phase.READ_ONLY, why, why
