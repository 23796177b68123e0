"""Forgetting tokens, producers and hashes of content that are out of their windows (T8, T9).

X1  A table remembers its newest text tokens, so many *and* all of the last hour; each producer with a name of
    its own for ever, and those that clients made for themselves for an hour after their last use; a shard the
    newest hashes of content. All this is told by the keeper's zxids and its own clock; as its present counts
    the newest time that is found anywhere: in a table that rests nothing is forgotten, and nothing written.
X2  A multi that forgets some checks, by setting it, the node above them as it was before they were listed.
    Whoever else deletes one sets that, too (Q5), so what was listed is what is deleted, and no node that was
    made anew under the same name and version. It is no harm if two replicas do this at once.
X3  It is done rarely, for tokens and producers by replicas of the first shard; the first in their order looks
    more often than the others. Listing costs, so it is done when there are more than the window holds,
    and when the oldest of them may be old enough.
"""

from __future__ import annotations

from motet.core.mergetree.context import Core
from motet.core.mergetree.state import (
    ListWindow,
    LookAtWindows,
    ReadWindow,
    TrimWindow,
)
from motet.core.mergetree.sweep import Remembered, Sweep
from motet.core.mergetree.tokens import OWN_PREFIX
from motet.core.metadata.messages import (
    Children,
    Conflict,
    Delete,
    Failed,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    Set,
    WriteOperation,
    Written,
)


def on_tick(core: Core) -> None:
    """X3."""
    state = core.state
    if state.sweep is not None or core.now_ns < state.windows_look_ns:
        return
    is_first = bool(state.replicas) and state.replicas[0] == core.own
    state.windows_look_ns = core.later_ns(core.config.windows_ms * (1 if is_first else 3))
    reads: list[ReadOperation] = [Get(core.paths.blocks)]
    if core.key[1] == 0:
        reads += [Get(core.paths.tokens), Get(core.paths.producers)]
    core.read(LookAtWindows(), *reads)


def on_looked(core: Core, _call: LookAtWindows, answer: MetadataAnswer) -> None:
    """What has more than its window holds is listed, one after the other."""
    if not isinstance(answer, ReadDone) or core.state.sweep is not None:
        return
    config = core.config
    windows = (config.dedup_window, config.tokens_window, 0)
    ages = (0, config.window_age_ms, config.window_age_ms)
    wanted = [
        Sweep(found.path, window, age_ms)
        for found, window, age_ms in zip(answer.results, windows, ages, strict=False)
        if isinstance(found, Found)
        and found.stat.children > window
        and core.now_ns >= core.state.windows_again_ns.get(found.path, 0)
    ]
    if wanted:
        core.state.sweep, core.state.sweeps_left = wanted[0], wanted[1:]
        _list(core, wanted[0])


def _list(core: Core, sweep: Sweep) -> None:
    core.read(ListWindow(), Children(sweep.parent), Get(sweep.parent))


def on_listed(core: Core, _call: ListWindow, answer: MetadataAnswer) -> None:
    """X2: the names, and the version of the node above them, at one moment."""
    sweep = core.state.sweep
    if sweep is None:
        return
    if not isinstance(answer, ReadDone):
        _end(core)
        return
    names, parent = answer.results
    if not isinstance(names, Names) or not isinstance(parent, Found):
        _end(core)
        return
    sweep.version, sweep.now_ms = parent.stat.version, parent.stat.mtime_ms
    is_meant = sweep.parent != core.paths.producers
    sweep.names = tuple(n for n in names.names if is_meant or n.startswith(OWN_PREFIX))
    _read(core, sweep)


def _read(core: Core, sweep: Sweep) -> None:
    some = sweep.names[: sweep.reads_max]
    if some:
        core.read(ReadWindow(len(some)), *(Get(f"{sweep.parent}/{name}") for name in some))
    else:
        _choose(core, sweep)


def on_read(core: Core, call: ReadWindow, answer: MetadataAnswer) -> None:
    sweep = core.state.sweep
    if sweep is None:
        return
    if isinstance(answer, Failed) and answer.code == "KEEPER_TOO_LARGE" and sweep.reads_max > 1:
        sweep.reads_max //= 2
        _read(core, sweep)
        return
    if not isinstance(answer, ReadDone):
        _end(core)
        return
    for found in answer.results:
        if isinstance(found, Found):
            stat = found.stat
            sweep.now_ms = max(sweep.now_ms, stat.mtime_ms)
            sweep.found.append(Remembered(stat.mzxid, stat.mtime_ms, found.path, stat.version))
    sweep.names = sweep.names[call.count :]
    _read(core, sweep)


def _choose(core: Core, sweep: Sweep) -> None:
    """X1."""
    newest_first = sorted(sweep.found, reverse=True)
    old = newest_first[sweep.window :]
    sweep.found = [each for each in old if each.mtime_ms <= sweep.now_ms - sweep.age_ms]
    if old and not sweep.found:  # before the oldest is old enough there is nothing to do
        again_ms = old[-1].mtime_ms + sweep.age_ms - sweep.now_ms
        core.state.windows_again_ns[sweep.parent] = core.later_ns(again_ms)
    _trim(core, sweep)


def _trim(core: Core, sweep: Sweep) -> None:
    some = sweep.found[-core.config.batch_max :]
    if not some:
        _end(core)
        return
    operations: list[WriteOperation] = [Set(sweep.parent, b"", sweep.version)]
    operations += [Delete(each.path, each.version) for each in some]
    core.write(TrimWindow(len(some)), *operations)


def on_trimmed(core: Core, call: TrimWindow, answer: MetadataAnswer) -> None:
    """What is used again meanwhile stays; when others trim, they go on."""
    sweep = core.state.sweep
    if sweep is None:
        return
    if isinstance(answer, Written):
        core.note("forgotten", f"{call.count} below {sweep.parent.rpartition('/')[2]}")
        del sweep.found[-call.count :]
        sweep.version += 1
        _trim(core, sweep)
    elif isinstance(answer, Conflict) and answer.index > 0:
        del sweep.found[len(sweep.found) - call.count + answer.index - 1]
        _trim(core, sweep)
    else:
        _end(core)


def _end(core: Core) -> None:
    """This one is done: the next."""
    state = core.state
    state.sweep = None
    if state.sweeps_left:
        state.sweep, *state.sweeps_left = state.sweeps_left
        _list(core, state.sweep)
