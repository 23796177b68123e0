"""Parts whose bytes are not what was written (T37).

F1  A damaged part answers no reader, from the moment when it is known.
F2  If another active replica has it, it is deregistered by a multi that checks that the other still has it:
    of two replicas whose copies are damaged one keeps its own. Then it is put aside and fetched. ``is_lost``
    is set with it, so that whoever copies this replica's state begins anew (T14).
F3  If nobody else has it, it stays registered and where it is. It is asked again who has it, every few ticks.
F4  While its quorum is open nothing was promised: it is deregistered in any case, and leaves the quorum with
    the same multi (T23).
F5  When the bytes have arrived once more they are stored in its place, and it is used again.
F6  Of parts that a start has found by the names of their folders alone (A8) the manifests are read while the
    replica serves, some with each tick. Whoever reads a part before hashes its file, and tells of damage.
"""

from __future__ import annotations

from itertools import islice

from motet.core.mergetree import executing
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import PartHeader, QuorumStatus, decode_status, encode_status
from motet.core.mergetree.queued import Step
from motet.core.mergetree.state import Broken, GiveUp, ReadBroken
from motet.core.mergetree.work import NOBODY, Detach, Keep, LookAtParts, Looked
from motet.core.metadata.messages import (
    ANY_VERSION,
    Check,
    Conflict,
    Delete,
    Found,
    Get,
    MetadataAnswer,
    ReadDone,
    ReadResult,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.ids import NodeId, PartId, WorkId

ASK_AGAIN_TICKS = 10
"""So often it is asked who else has a damaged part."""

IS_LOST, PART = 1, 2
"""What the first operations that give a part up are about, after the check of the host."""


def on_tick(core: Core) -> None:
    """F6."""
    state = core.state
    if state.reading is not None or not state.named:
        return
    some = tuple(islice(state.named, core.config.looked_max))
    for part in some:
        del state.named[part]
    there = tuple(part for part in some if part in state.parts and state.parts[part].is_stored)
    if there:
        state.reading = core.work(LookAtParts(*core.key, there), NOBODY)
        state.read_names = there


def on_looked(core: Core, looked: Looked | None) -> None:
    """F6: some of them are as long as their manifests say; None: they could not be read."""
    state = core.state
    some, state.reading, state.read_names = state.read_names, None, ()
    whole = {header.id: header.hash for header in looked.stored} if looked is not None else {}
    for part in some if looked is not None else ():
        own = state.parts.get(part)
        if own is not None and own.is_stored and whole.get(part) != own.header.hash:
            on_broken(core, part)


def on_broken(core: Core, part: PartId) -> None:
    """The node has found that a stored part is damaged. A look that is under way may not know it yet."""
    own = core.state.parts.get(part)
    if not core.is_active:
        core.state.damaged[part] = None
    if own is not None and own.is_stored:
        own.is_stored, own.is_broken = False, True
        core.state.broken[part] = Broken()
        core.note("part_broken", part)


def on_arrived(core: Core, header: PartHeader) -> None:
    """F5."""
    broken = core.state.broken.get(header.id)
    if broken is not None:
        broken.again_ns = core.now_ns


def advance(core: Core) -> None:
    """Do the next step for each of them."""
    state = core.state
    for part, broken in list(state.broken.items()):
        own = state.parts.get(part)
        if own is None or not own.is_broken:
            del state.broken[part]
        elif broken.is_asked or broken.work is not None or core.now_ns < broken.again_ns:
            continue
        elif not own.is_registered:
            _advance_unregistered(core, part)
        elif part in state.aside and state.aside[part].hash == own.header.hash:
            broken.work = core.work(Keep(*core.key, own.header), part)
            state.storing[broken.work] = own.header
        else:
            _ask(core, part, broken)


def _advance_unregistered(core: Core, part: PartId) -> None:
    """It promises nothing: whoever wants it fetches it, unless its registration is under way."""
    state = core.state
    queued = state.queue.get(part)
    is_busy = queued is not None and queued.step not in (Step.WANTED, Step.STORED, Step.JOINING)
    if is_busy or core.insert_of(part) is not None:
        return
    _put_aside(core, part)
    if queued is not None:
        core.wait(queued, "its bytes are being put away")


def _put_aside(core: Core, part: PartId) -> None:
    del core.state.parts[part], core.state.broken[part]
    core.put_away(Detach(*core.key, part, "damaged"))


def _ask(core: Core, part: PartId, broken: Broken) -> None:
    broken.is_asked = True
    others = tuple(node for node in core.state.replicas if node != core.own)
    reads = [Get(core.own_paths.part(part)), Get(core.paths.status(part))]
    for node in others:
        paths = core.paths.replica(node)
        reads += [Get(paths.is_active), Get(paths.is_lost), Get(paths.part(part))]
    core.read(ReadBroken(part, others), *reads)


def on_read_broken(core: Core, call: ReadBroken, answer: MetadataAnswer) -> None:
    """F2, F3, F4."""
    state, part = core.state, call.part
    broken = state.broken.get(part)
    if broken is None:
        return
    if not isinstance(answer, ReadDone):
        _ask_later(core, broken, 1)
        return
    own, status, *results = answer.results
    if not isinstance(own, Found):  # it was given up, and nobody had told
        _is_given_up(core, part)
        return
    operations: list[WriteOperation] = [
        Check(core.own_paths.host, state.host_version),
        Set(core.own_paths.is_lost, b"0", state.is_lost_version),
        Delete(own.path, ANY_VERSION),
    ]
    other = holder_of(call.replicas, results)
    if isinstance(status, Found):
        try:
            operations.append(left_by(core.own, status))
        except BadRecord as error:
            core.note("bad_status", f"{part}: {error.what}")
            _ask_later(core, broken, ASK_AGAIN_TICKS)
            return
    elif other is not None:
        operations.append(Check(core.paths.replica(other).part(part), ANY_VERSION))
    else:
        if not broken.is_only:
            core.note("part_damaged_everywhere", part)
        broken.is_only = True
        _ask_later(core, broken, ASK_AGAIN_TICKS)
        return
    broken.is_only = False
    core.write(GiveUp(part), *operations)


def holder_of(replicas: tuple[NodeId, ...], results: list[ReadResult]) -> NodeId | None:
    """One of the replicas that have a part, are active and are not lost."""
    each = iter(results)
    for node, is_active, is_lost, part in zip(replicas, each, each, each, strict=False):
        is_sound = isinstance(is_lost, Found) and is_lost.data != b"1"
        if isinstance(is_active, Found) and is_sound and isinstance(part, Found):
            return node
    return None


def left_by(own: NodeId, status: Found) -> Set:
    """The status of a quorum without this replica (T23)."""
    known = decode_status(status.data)
    members = tuple(member for member in known.members if member != own)
    return Set(status.path, encode_status(QuorumStatus(known.wanted, members)), status.stat.version)


def _ask_later(core: Core, broken: Broken, ticks: int) -> None:
    broken.is_asked, broken.again_ns = False, core.later_ns(ticks * core.config.tick_ms)


def on_given_up(core: Core, call: GiveUp, answer: MetadataAnswer) -> None:
    broken = core.state.broken.get(call.part)
    if isinstance(answer, Written):
        core.state.is_lost_version += 1
        if broken is not None:
            _is_given_up(core, call.part)
    elif isinstance(answer, Conflict) and answer.index < PART:
        core.step_back("is started by another process, or lost")
    elif broken is not None:  # read again what there is
        _ask_later(core, broken, 0 if isinstance(answer, Conflict) else 1)


def _is_given_up(core: Core, part: PartId) -> None:
    """It is not registered any more: put it aside, and fetch it if it is wanted."""
    _put_aside(core, part)
    block = core.state.history.of_part(part)
    if block is not None and not executing.is_unwanted(block):
        executing.queue_parts(core, block.block.entry, (block.header,))


def on_work(core: Core, part: PartId, work: WorkId, why: str | None) -> bool:
    """F5; False: the work was not about a damaged part."""
    broken = core.state.broken.get(part)
    if broken is None or broken.work != work:
        return False
    core.state.aside.pop(part, None)
    core.state.storing.pop(work, None)
    broken.work = None
    if why is None:
        own = core.state.parts[part]
        own.is_stored, own.is_broken = True, False
        core.note("part_whole", part)
    else:
        _ask_later(core, broken, 1)
    return True
