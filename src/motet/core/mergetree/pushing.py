"""Bytes that are sent ahead: who reads the entry of an insert has the part already.

S1  Small bytes go to other replicas while the inserter writes its own copy. They are put aside there, and
    promise nothing (T25): they may go at any time, and go when no entry has named them for a while.
S2  Who is not active, or has too much to write, leaves them: the part is fetched then, as a large one is.
S3  Work with one part is done in order. So an entry that comes while they are being written finds them.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import checks, executing
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import PartBytes, PartPushed
from motet.core.mergetree.work import Arrive, Release
from motet.errors import MotetError
from motet.ids import WorkId


def push(core: Core, part: PartHeader, block: PartBytes | None) -> None:
    """S1: to those that follow us in the order of replicas, so many of them."""
    if block is None:
        return
    nodes = core.state.replicas
    if core.own not in nodes:
        return  # the table is going
    at = nodes.index(core.own) + 1
    table, shard = core.key
    for node in (nodes[at:] + nodes[: at - 1])[: core.config.pushes_max]:
        core.send(node, PartPushed(table, shard, part, block))


def take(core: Core, message: PartPushed) -> None:
    """A peer pushes bytes to us."""
    state, part = core.state, message.part.id
    try:
        checks.check_push(core, message)
    except MotetError as error:
        core.note("push_left", f"{part[:64]}: {error.what}")
        return
    if checks.is_known(core, part) and part not in state.queue:
        return
    work = core.work_on_block(Arrive(*core.key, message.part, message.block))
    state.arriving[work] = message.part
    state.pushed[part] = core.now_ns
    executing.on_arrived(core, message.part)


def on_arrived(core: Core, work: WorkId, why: str | None) -> None:
    """They are written, or not."""
    header = core.state.arriving.pop(work)
    if why is not None:
        core.state.aside.pop(header.id, None)
        core.note("push_left", f"{header.id}: {why}")
    elif header.id in core.state.pushed and header.id not in core.state.works.values():
        executing.on_arrived(core, header)  # the disk was looked at meanwhile


def on_tick(core: Core) -> None:
    """S1: what nobody has named goes, oldest first."""
    state, most_ns = core.state, core.config.pushed_ms * NS_PER_MS
    while state.pushed:
        part, since_ns = next(iter(state.pushed.items()))
        if core.now_ns - since_ns < most_ns:
            break
        del state.pushed[part]
        if part not in state.queue and state.aside.pop(part, None) is not None:
            core.put_away(Release(*core.key, part))
