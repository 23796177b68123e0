"""Reading the log.

L1  Entries are read by their numbers, up to so many at one moment; nothing is listed. The head of the log is
    what its node's stat says, which trimming does not change (R1).
P1  As many are read as the log is known to have, and a few more: a look at an idle log costs next to nothing.
    If they are too large for one answer, fewer are read, down to one.
P2  The log is watched, and inserters tell of their entries. A replica that has read all of it looks again
    after ``pull_ms`` at the latest: a node with many replicas that is idle costs the keeper little.
P3  What is known is not read once more. An entry that this replica has appended itself, and before which it
    knows all, is executed as it was sent. Who is told of a change of the log has mostly read it by then: that
    of a zxid up to which the log is known asks for nothing, nor does an entry that has been executed.
P4  The quorums of parts that have just come are read with the log: who finds the entry joins at once.
"""

from __future__ import annotations

from motet.core.mergetree import executing, manifests
from motet.core.mergetree.context import Core
from motet.core.mergetree.entries import Entry, PublishEntry, decode_entry, encode_entry
from motet.core.mergetree.state import Pull, PullManifests
from motet.core.metadata.messages import Failed, Found, Get, MetadataAnswer, NodeStat, ReadDone
from motet.errors import BadRecord
from motet.ids import Zxid

AHEAD = 4
"""Entries that are read although nobody has told of them."""


def head_of(log: NodeStat) -> int:
    """The number of the last entry; -1: there was none. Deletions cancel out in the sum (L1).

    The keeper counts changes in 32 bits with a sign.
    """
    return (log.cversion + log.children) % (1 << 32) // 2 - 1


def pull(core: Core) -> None:
    """Read on, unless that is under way: then once more after it."""
    state = core.state
    if not core.is_active:
        return
    if state.pulling is not None:
        state.is_pull_wanted = True
        return
    state.is_pull_wanted, state.pull_again_ns = False, 0
    state.hinted, state.changed = -1, Zxid(0)
    first = state.history.next_number
    state.pull_max = min(state.pull_max or core.config.entries_max, core.config.entries_max)
    wanted = max(state.head_heard - first + 1, AHEAD)
    numbers = range(first, first + min(wanted, state.pull_max))
    entries = (Get(core.paths.entry(number)) for number in numbers)
    coming = tuple(state.coming)
    statuses = [Get(core.paths.status(part)) for part in coming]
    quorums = [Get(core.paths.last_part), *statuses] if coming else []
    state.pulling = core.read(Pull(first, coming), Get(core.paths.log), *entries, *quorums)


def hear(core: Core, number: int) -> None:
    """Somebody says that the log has this entry: it is not believed, the log is read."""
    state = core.state
    if number >= state.history.next_number:
        state.head_heard = max(state.head_heard, number)
        if state.pulling is None:
            pull(core)
        else:
            state.hinted = max(state.hinted, number)


def on_changed(core: Core, zxid: Zxid) -> None:
    """The log has changed, up to this zxid at the latest (P3); 0: nobody knows."""
    state = core.state
    if state.pulling is None or not zxid:
        if not zxid or zxid > state.log_zxid:
            pull(core)
    else:
        state.changed = max(state.changed, zxid)


def on_appended(core: Core, number: int, zxid: Zxid, entry: Entry) -> None:
    """This replica has appended an entry by a multi that was done at this zxid (P3)."""
    state = core.state
    if not core.is_active or number != state.history.next_number or zxid <= state.history.zxid:
        pull(core)
        return
    state.log_zxid = max(state.log_zxid, zxid)
    _execute(core, number, zxid, entry)


def on_pulled(core: Core, call: Pull, answer: MetadataAnswer) -> None:
    state = core.state
    state.pulling = None
    if isinstance(answer, Failed) and answer.code == "KEEPER_TOO_LARGE" and state.pull_max > 1:
        state.pull_max //= 2  # P1
        pull(core)
        return
    if not isinstance(answer, ReadDone):
        return  # the next tick reads again
    log, *results = answer.results
    quorums = [results.pop() for _ in range(len(call.coming) + 1)] if call.coming else []
    if not isinstance(log, Found):
        return
    known = state.history.next_number - call.first
    assert known >= 0, "one read at a time"
    head = head_of(log.stat)
    if head < call.first - 1:
        _is_other_log(core)
        return
    state.head_heard = max(head, state.history.next_number - 1)
    state.log_zxid = max(state.log_zxid, answer.zxid)
    state.pull_max *= 2
    for result in results[known:]:
        if not isinstance(result, Found):
            break
        number = state.history.next_number
        if result.stat.czxid <= state.history.zxid:
            _is_other_log(core)
            return
        try:
            entry = decode_entry(result.data)
        except BadRecord as error:
            core.note("bad_entry", f"{number}: {error.what}")
            break
        if isinstance(entry, PublishEntry) and entry.manifests:
            wanted = PullManifests(number, result.stat.czxid, entry)
            reads = (Get(path) for path in manifests.paths_of(core.paths, entry))
            state.pulling = core.read(wanted, *reads)
            return
        _execute(core, number, result.stat.czxid, entry)
    if quorums:
        executing.know_quorums(core, answer.zxid, call.coming, quorums[::-1])
    is_there = known > 0 or isinstance(results[0], Found)
    _go_on(core, call.first, is_there=is_there)


def _go_on(core: Core, first: int, *, is_there: bool) -> None:
    """Read what follows, at once or later."""
    state = core.state
    number, head = state.history.next_number, state.head_heard
    is_told = state.hinted >= number or state.changed > state.log_zxid
    if first < number <= head or is_told or state.is_pull_wanted:
        pull(core)
    elif number <= head and not is_there:
        core.note("entry_trimmed", f"{number} of {head}")
    elif number > head:
        state.pull_again_ns = core.later_ns(core.config.pull_ms)  # P2


def on_tick(core: Core) -> None:
    """P2."""
    if core.state.pulling is None and core.now_ns >= core.state.pull_again_ns:
        pull(core)


def _execute(core: Core, number: int, zxid: Zxid, entry: Entry) -> None:
    state = core.state
    state.history.apply(number, zxid, entry)
    state.last_entry = encode_entry(entry)
    state.unwritten.append((number, zxid, state.last_entry))
    core.note("executed", f"{number} {type(entry).__name__.removesuffix('Entry').lower()}")
    executing.execute(core, number, entry)


def on_manifests(core: Core, call: PullManifests, answer: MetadataAnswer) -> None:
    """An entry of many parts is known whole (M3)."""
    state = core.state
    state.pulling = None
    if not isinstance(answer, ReadDone):
        return  # the next tick reads again
    found = [result.data for result in answer.results if isinstance(result, Found)]
    if len(found) < len(answer.results):
        core.note("bad_entry", f"{call.number}: a manifest of it is gone")
        return
    try:
        entry = manifests.whole(call.entry, found)
    except BadRecord as error:
        core.note("bad_entry", f"{call.number}: {error.what}")
        return
    assert call.number == state.history.next_number, "one read at a time"
    _execute(core, call.number, call.zxid, entry)
    pull(core)


def _is_other_log(core: Core) -> None:
    """T38: the next activation says what is to be done."""
    core.state.is_other_log = True
    core.step_back("has executed another log than the keeper has")
