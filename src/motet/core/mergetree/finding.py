"""The version of a shard at a moment: the zxid of the last entry that was appended until then.

Z1  Entries know when they were appended by the keeper's clock, and so does nothing here: they are searched
    for in the keeper, some at a time, between the first that has not been trimmed and the head.
Z2  A moment before all that are left of a log that was trimmed has no version any more: it is refused.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.mergetree import checks, pulling
from motet.core.mergetree.context import Core
from motet.core.mergetree.inserting import failure
from motet.core.mergetree.messages import FindVersion, VersionFound
from motet.core.mergetree.state import FindEntries, FindHead, Finding
from motet.core.metadata.messages import Found, Get, MetadataAnswer, NodeStat, ReadDone
from motet.errors import MotetError
from motet.errors.tables import SnapshotExpired, TableReadOnly
from motet.ids import Address

probes = 15
"""Entries that are looked at at one moment: 16 times fewer are left then."""


def take(core: Core, client: Address, message: FindVersion) -> None:
    """A client asks."""
    state = core.state
    try:
        checks.check_room(core, len(state.findings))
    except MotetError as error:
        core.refuse(client, message, error)
        return
    if not core.node.memory.session or state.is_lost:
        why = f"this replica {state.why or 'is starting'}"
        core.refuse(client, message, TableReadOnly(why, hint="ask another replica"))
        return
    number = state.next_insert
    state.next_insert += 1
    state.findings[number] = Finding(client, message, core.now_ns)
    core.read(FindHead(number), Get(core.paths.log))


def on_head(core: Core, call: FindHead, answer: MetadataAnswer) -> None:
    """The log has so many entries."""
    finding = core.state.findings.get(call.finding)
    if finding is None:
        return
    log = answer.results[0] if isinstance(answer, ReadDone) else None
    if not isinstance(log, Found):
        _refuse(core, call.finding, failure(answer))
        return
    finding.high = pulling.head_of(log.stat)
    _go_on(core, call.finding, finding)


def _go_on(core: Core, number: int, finding: Finding) -> None:
    """The last entry until the moment is ``low``, or lies above it and not above ``high``."""
    count = finding.high - finding.low
    if count <= 0:
        _answer(core, number, finding)
        return
    step = max(count // (probes + 1), 1)
    wanted = tuple(range(finding.low + step, finding.high + 1, step))[: probes + 2]
    entries = (Get(core.paths.entry(each)) for each in wanted)
    core.read(FindEntries(number, wanted), *entries)


def on_entries(core: Core, call: FindEntries, answer: MetadataAnswer) -> None:
    finding = core.state.findings.get(call.finding)
    if finding is None:
        return
    if not isinstance(answer, ReadDone):
        _refuse(core, call.finding, failure(answer))
        return
    for number, result in zip(call.numbers, answer.results, strict=True):
        if not isinstance(result, Found):
            finding.low, finding.has_gap = number, True  # trimmed: what was appended before it, too
        elif _is_until(result.stat, finding):
            finding.low, finding.version = number, result.stat.czxid
            finding.has_gap = False
        else:
            finding.high = number - 1
            break
    _go_on(core, call.finding, finding)


def _is_until(stat: NodeStat, finding: Finding) -> bool:
    return stat.ctime_ms <= finding.message.time_ms


def _answer(core: Core, number: int, finding: Finding) -> None:
    if finding.has_gap:
        what = "the log has been trimmed of what was appended until then"
        _refuse(core, number, SnapshotExpired(what))
        return
    del core.state.findings[number]
    found = VersionFound(*core.key, finding.message.request, finding.version)
    core.send(finding.client, found)


def _refuse(core: Core, number: int, error: MotetError) -> None:
    finding = core.state.findings.pop(number)
    core.refuse(finding.client, finding.message, error)


def on_tick(core: Core) -> None:
    """Calls of a replica that has begun anew are answered to nobody."""
    for number, finding in list(core.state.findings.items()):
        if core.now_ns - finding.since_ns >= core.config.wait_ms * NS_PER_MS:
            _refuse(core, number, TableReadOnly("the keeper did not answer this replica"))


def on_session_end(core: Core) -> None:
    """What was asked is not answered any more."""
    for number in list(core.state.findings):
        _refuse(core, number, TableReadOnly("this replica has lost its session"))
