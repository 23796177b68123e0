"""Parts that are held for a publication: synced on a quorum of replicas before anything names them.

H1  A replica that says that it holds a part has synced it among its staged ones, and names the version that
    its ``host`` has then (T5). While ``host`` has that version it keeps the part; whoever publishes checks.
H2  A part is staged when as many replicas hold it as its client asked for; who does not answer in time is
    left out. Holders need not be active, and a lost replica holds nothing (T23).
H3  Asked again, a replica answers at once if it has the part by id and hash, staged or registered: after a
    restart, too, with its new version. Else it gets it from the replica that it is told of.
H4  Before a replica lets go of staged parts it raises its own ``host``: no later multi counts on them. Then
    it reads the head of the log; what no entry up to there names goes (T26).
H5  It lets go of parts that entries no longer want; of those of a job that is not open (T4); and of those
    without a job, or whose job it does not know since its start, when nobody has asked for them for an hour.
H6  Staged parts are looked at before others are asked for them (T24), and are not put aside at a start.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import checks, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.jobs import OPEN
from motet.core.mergetree.messages import (
    Holder,
    HoldPart,
    PartBytes,
    PartHeld,
    PartStaged,
    StagePart,
)
from motet.core.mergetree.state import (
    HeldPart,
    LetGo,
    ReadJobs,
    ReadLogHead,
    Releasing,
    Staging,
)
from motet.core.mergetree.work import Hold, Looked, Release, not_here
from motet.core.metadata.messages import (
    Children,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    Set,
    Written,
)
from motet.errors import MotetError, NodeError
from motet.errors.tables import TableReadOnly, TooFewReplicas
from motet.ids import Address, NodeId, PartId, WorkId

NOT_HELD = -1
"""Instead of a version of ``host``."""

fetched_bytes_per_ms = 10_000
"""So fast a large part is expected to get to another replica: it decides how long that is waited for."""


# Staging for a client


def take(core: Core, client: Address, message: StagePart) -> None:
    """A client asks; the bytes have arrived here, or come with the request."""
    state = core.state
    try:
        checks.check_stage(core, message)
    except MotetError as error:
        core.refuse(client, message, error)
        return
    number = state.next_insert
    state.next_insert += 1
    quorum = message.quorum or core.majority
    part, block = message.part, message.block
    state.staging[number] = Staging(client, message.request, part, message.job, quorum, core.now_ns)
    if _is_here(core, part):
        _on_own(core, part)
        return
    _hold(core, part, message.job, block, None)
    if block is not None:
        for node in _others(core):
            core.send(node, HoldPart(*core.key, part, core.own, message.job, block))


def _others(core: Core) -> tuple[NodeId, ...]:
    return tuple(node for node in core.state.replicas if node != core.own)


def _on_own(core: Core, part: PartHeader) -> None:
    """Our own copy is synced: others can fetch it from here."""
    for staging in core.state.staging.values():
        if staging.part == part:
            staging.holders[core.own] = core.state.host_version
            staging.again_ns = core.now_ns


def on_held(core: Core, sender: Address, message: PartHeld) -> None:
    """H2: another replica holds a part, or cannot."""
    node = NodeId(sender)
    if node not in core.state.replicas:
        return
    for staging in core.state.staging.values():
        if staging.part.id != message.part:
            continue
        if message.host_version == NOT_HELD:
            staging.refused[node] = None
        else:
            staging.holders[node] = message.host_version


def look(core: Core) -> None:
    """Answer clients whose part is held by enough, or will not be."""
    state = core.state
    for number, staging in list(state.staging.items()):
        version = _promised_version(core)
        if core.own in staging.holders:
            staging.holders[core.own] = version
            if len(staging.holders) >= staging.quorum and version != NOT_HELD:
                if not _is_here(core, staging.part):
                    _refuse(core, number, NodeError("its bytes have gone meanwhile"))
                    continue
                del state.staging[number]
                holders = tuple(Holder(*each) for each in sorted(staging.holders.items()))
                told = PartStaged(*core.key, staging.request, staging.part, holders)
                core.send(staging.client, told)
                continue
            if core.now_ns >= staging.again_ns:
                _ask_others(core, staging)
        wait_ms = core.config.wait_ms + staging.part.size_bytes // fetched_bytes_per_ms
        if core.now_ns - staging.since_ns >= wait_ms * NS_PER_MS:
            held = f"{len(staging.holders)} of {staging.quorum} replicas have synced it"
            _refuse(core, number, TooFewReplicas(f"part {staging.part.id} is not staged: {held}"))


def _ask_others(core: Core, staging: Staging) -> None:
    """With each tick once more: they answer at once when they have it."""
    staging.again_ns = core.later_ns(core.config.tick_ms)
    for node in _others(core):
        if node not in staging.holders:
            core.send(node, HoldPart(*core.key, staging.part, core.own, staging.job))


def _refuse(core: Core, number: int, error: MotetError) -> None:
    staging = core.state.staging.pop(number)
    core.refuse(staging.client, staging.request, error)


# Holding


def hold(core: Core, sender: Address, message: HoldPart) -> None:
    """H1, H3: somebody wants a part to be held here."""
    part = message.part
    try:
        checks.check_hold(core, message)
    except MotetError as error:
        core.note("not_held", f"{part.id[:64]}: {error.what}")
        core.send(sender, PartHeld(*core.key, part.id, NOT_HELD))
        return
    if _is_here(core, part):
        held = core.state.held.get(part.id)
        if held is not None and core.state.releasing.is_raising:
            held.asked_by[sender] = None  # told when the version is known
        else:
            _tell(core, sender, part.id)
        return
    source = None if message.source == core.own else message.source
    held = _hold(core, part, message.job, message.block, source)
    held.asked_by[sender] = None


def _is_here(core: Core, part: PartHeader) -> bool:
    """H3. Who asks for it again renews the promise."""
    state = core.state
    own = state.parts.get(part.id)
    if own is not None and own.is_registered:
        return own.is_stored and own.header.hash == part.hash
    held = state.held.get(part.id)
    if held is None or not held.is_synced:
        return False
    held.since_ns = core.now_ns
    state.releasing.parts.pop(part.id, None)
    return True


def _hold(
    core: Core, part: PartHeader, job: str, block: PartBytes | None, source: NodeId | None
) -> HeldPart:
    state = core.state
    held = state.held.get(part.id)
    if held is None:
        held = state.held[part.id] = HeldPart(part, job, core.now_ns)
    if held.work is None:
        held.work = core.work_on_block(Hold(*core.key, part, block, source))
        state.holding[held.work] = part.id
    return held


def _tell(core: Core, asker: Address, part: PartId) -> None:
    core.send(asker, PartHeld(*core.key, part, _promised_version(core)))


def _promised_version(core: Core) -> int:
    """H1: a version of ``host`` that is not known to be there is not told."""
    return NOT_HELD if core.state.releasing.is_raising else core.state.host_version


def on_hold_ended(core: Core, work: WorkId, why: str | None) -> None:
    """Its bytes are synced here, or could not be got."""
    state = core.state
    part = state.holding.pop(work)
    held = state.held.get(part)
    if held is None:
        return  # an entry has named it meanwhile, and it is stored
    held.work = None
    if why is not None:
        asked_by, held.asked_by = held.asked_by, {}
        del state.held[part]
        core.note("not_held", f"{part}: {why}")
        for asker in asked_by:
            core.send(asker, PartHeld(*core.key, part, NOT_HELD))
        for number, staging in list(state.staging.items()):
            if staging.part.id == part:
                _refuse(core, number, not_here(why))
        return
    held.is_synced, held.since_ns = True, core.now_ns
    state.aside.pop(part, None)
    state.pushed.pop(part, None)
    _tell_askers(core, held)
    _on_own(core, held.header)


def _tell_askers(core: Core, held: HeldPart) -> None:
    """It is synced; nobody is told while the version of ``host`` is not known."""
    if held.is_synced and not core.state.releasing.is_raising:
        asked_by, held.asked_by = held.asked_by, {}
        for asker in asked_by:
            _tell(core, asker, held.header.id)


def on_looked(core: Core, looked: Looked) -> None:
    """H6: what the disk has. What was synced since the look was begun is not in what it says."""
    state = core.state
    state.releasing = Releasing()
    there = {header.id: header for header in looked.staged}
    for part, held in list(state.held.items()):
        if held.is_synced and part not in there and held.since_ns < state.look_ns:
            del state.held[part]
    for part, header in there.items():
        if part not in state.held:
            state.held[part] = HeldPart(header, None, core.now_ns, is_synced=True)


# Letting go


def on_tick(core: Core) -> None:
    """H5."""
    state = core.state
    if core.now_ns < state.staged_look_ns or state.releasing.parts:
        return
    state.staged_look_ns = core.later_ns(core.config.staged_look_ms)
    _release_named(core)
    old = [each for each in state.held.values() if each.is_synced and _is_old(core, each)]
    if old:
        jobs = tuple(dict.fromkeys(each.job for each in old if each.job))
        some = jobs[: core.config.batch_max]
        reads: list[ReadOperation] = [Children(core.paths.staging)]
        reads += [Get(core.paths.job(job)) for job in some]
        core.read(ReadJobs(some), *reads)


def _is_old(core: Core, held: HeldPart) -> bool:
    config = core.config
    keep_ms = config.job_part_keep_ms if held.job else config.staged_keep_ms
    age_ns = core.now_ns - held.since_ns
    return age_ns >= keep_ms * NS_PER_MS and not checks.is_taken(core, held.header.id)


def _release_named(core: Core) -> None:
    """Entries have named these, and they are stored, or nobody wants them any more."""
    state = core.state
    for part, held in list(state.held.items()):
        if held.is_synced and part in state.history.by_part and part not in state.queue:
            del state.held[part]
            core.put_away(Release(*core.key, part))


def on_jobs(core: Core, call: ReadJobs, answer: MetadataAnswer) -> None:
    """H5, and then H4: ``host`` is raised."""
    state = core.state
    if not isinstance(answer, ReadDone) or not core.is_active or state.releasing.parts:
        return
    names, *found = answer.results
    has_jobs = isinstance(names, Names) and bool(names.names)
    ended = {
        job
        for job, result in zip(call.jobs, found, strict=True)
        if not isinstance(result, Found) or result.data != OPEN
    }
    gone = [
        part
        for part, held in state.held.items()
        if held.is_synced
        and _is_old(core, held)
        and (held.job in ended if held.job else held.job == "" or not has_jobs)
    ]
    if not gone:
        return
    host = core.own_paths.host
    data = core.node.memory.endpoint.encode()
    core.write(LetGo(), Set(host, data, state.host_version))
    state.releasing = Releasing(dict.fromkeys(gone), is_raising=True)


def on_let_go(core: Core, _call: LetGo, answer: MetadataAnswer) -> None:
    state = core.state
    if not isinstance(answer, Written):
        core.step_back("could not raise its host")  # no version is told until it is raised anew
        return
    version = answer.results[0]
    assert isinstance(version, int), "the set of host is the only operation"
    state.host_version, state.releasing.is_raising = version, False
    for held in list(state.held.values()):
        _tell_askers(core, held)
    core.read(ReadLogHead(), Get(core.paths.log))


def on_log_head(core: Core, _call: ReadLogHead, answer: MetadataAnswer) -> None:
    found = answer.results[0] if isinstance(answer, ReadDone) else None
    if not isinstance(found, Found):
        core.state.releasing = Releasing()  # they are looked at again
        return
    head = core.state.releasing.head = pulling.head_of(found.stat)
    pulling.hear(core, head)


def release(core: Core) -> None:
    """H4: all entries that can name them have been read."""
    state = core.state
    head = state.releasing.head
    if head is None or state.history.next_number <= head:
        return
    for part in state.releasing.parts:
        if part in state.held and not checks.is_taken(core, part):
            del state.held[part]
            core.note("part_released", part)
            core.put_away(Release(*core.key, part))
    state.releasing = Releasing()


def on_session_end(core: Core) -> None:
    """What is staged stays; clients ask another replica."""
    core.state.releasing = Releasing()
    for number in list(core.state.staging):
        _refuse(core, number, TableReadOnly("this replica has lost its session"))
