"""What one machine has under way with its disk, from the effect to ``Written``.

The sync at the end of a turn makes the changes of the turn durable together, or the node stops. So two
small collections are enough to keep E3 and E5: the changes that are not durable yet, and those that failed.

Plain writes are gathered until the sync, or until anything else is done with the disk, so that those which
follow each other in a file become one call. Journals grow at their end, so a turn of 64 records is one call
of the system instead of 64, and the call is what costs. Within a file the order of writes is kept. Across
files there is none to keep: nothing is durable before the sync, and a crash may leave any subset (E4).

A file that is replaced several times in a turn is replaced once, by the last of them: nobody can have seen
the others, and all of them are durable, or fail, with it.

A sync may be for so many files at most. Then the oldest changes become durable, up to the first one of a file
too many; the others wait for the next turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from motet.core.machine import (
    DiskChange,
    Effect,
    Event,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Remove,
    Replace,
    Truncate,
    Write,
    WriteFailed,
)
from motet.errors import DiskFull, DiskReadFailed, MotetError, NodeError
from motet.ids import FileName, WriteId
from motet.limits import gathered_bytes_max
from motet.node.counters import Counters
from motet.node.logs import complain
from motet.ports import Disk

long_bytes = 64 << 10
"""A write of so much costs its bytes, not its call."""


class _Run:
    """Writes that follow each other."""

    __slots__ = ("end", "writes")

    def __init__(self, first: Write) -> None:
        self.writes = [first]
        self.end = first.offset + len(first.data)


class GatheredWrites:
    """Takes writes, and does them when it is told to."""

    __slots__ = ("_last_runs", "_runs", "size_bytes")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        #: the newest run of each file
        self._last_runs: dict[FileName, _Run] = {}
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def count(self) -> int:
        """How many writes there are."""
        return sum(len(run.writes) for run in self._runs)

    def files(self) -> Iterable[FileName]:
        """Which files will change, in the order in which they were touched first."""
        return self._last_runs.keys()

    def add(self, write: Write) -> int:
        """Do this one later; how many bytes are gathered now."""
        size_bytes = len(write.data)
        run = self._last_runs.get(write.file)
        if run is not None and run.end == write.offset:
            run.writes.append(write)
            run.end += size_bytes
        else:
            self._last_runs[write.file] = run = _Run(write)
            self._runs.append(run)
        self.size_bytes = total_bytes = self.size_bytes + size_bytes
        return total_bytes

    def carry_out(self, disk: Disk) -> list[tuple[Write, DiskFull]]:
        """Do all of them now; those for which there was no room. Any other error is passed on."""
        runs, self._runs = self._runs, []
        self._last_runs = {}
        self.size_bytes = 0
        failed: list[tuple[Write, DiskFull]] = []
        for run in runs:
            failed += _write_run(disk, run.writes)
        return failed


def _write_run(disk: Disk, writes: list[Write]) -> list[tuple[Write, DiskFull]]:
    # Putting long ones together would cost more than the calls.
    if len(writes) > 1 and len(writes[0].data) < long_bytes:
        first = writes[0]
        try:
            disk.write(first.file, first.offset, b"".join([write.data for write in writes]))
        except DiskFull:
            pass  # the file is as it was; what there is room for will fit one by one
        else:
            return []
    failed = []
    for write in writes:
        try:
            disk.write(write.file, write.offset, write.data)
        except DiskFull as error:
            failed.append((write, error))
    return failed


Pending = tuple[Callable[..., Event], tuple[object, ...]]
"""An event without its time: its type, and its fields after ``now``."""


synced_alone_max = 3
"""More files than these are synced together, which takes threads."""


class DiskWork:
    """Carries out the disk effects of one machine; ``tell`` takes what else it is to hear next turn."""

    def __init__(
        self, name: str, disk: Disk, counters: Counters, tell: Callable[[Pending], None]
    ) -> None:
        self._name = name
        self._disk = disk
        self._counters = counters
        self._tell = tell
        #: asked for and not durable yet, in order, each with its file
        self.pending: dict[WriteId, FileName] = {}
        #: durable, and the machine has not been told yet
        self.durable: list[WriteId] = []
        #: failed; kept for good, because nothing may ever leave that waits for one of them
        self.failed: set[WriteId] = set()
        #: the newest change asked for
        self.asked_max = WriteId(-1)
        #: files to sync in this turn, in the order they were touched
        self._dirty: dict[FileName, None] = {}
        self._writes = GatheredWrites()
        #: file -> what is to replace it: the last one counts
        self._replaces: dict[FileName, list[Replace]] = {}
        self.effects: Mapping[type[Effect], Callable[[Any], None]] = {
            Replace: self._replace,
            Truncate: self._truncate,
            Preallocate: self._preallocate,
            Remove: self._remove,
            Read: self._read,
        }

    def sync(self, files_max: int | None = None) -> None:
        """Make the turn's changes durable, those of so many files at most: one sync per file."""
        if not self.pending:
            return
        self._carry_out_writes()
        if files_max is None or len(self._dirty) + len(self._replaces) <= files_max:
            self._carry_out_replaces()
            dirty, self._dirty = self._dirty, {}
            self._sync(dirty)
            self.durable += self.pending
            self.pending.clear()
            return
        oldest, files = self._oldest(files_max)
        self._carry_out_replaces([file for file in files if file in self._replaces])
        dirty = {file: None for file in files if file in self._dirty}
        for file in dirty:
            del self._dirty[file]
        self._sync(dirty)
        for write in oldest:
            if (
                self.pending.pop(write, None) is not None
            ):  # a replacement may have found the disk full
                self.durable.append(write)

    def _oldest(self, files_max: int) -> tuple[list[WriteId], dict[FileName, None]]:
        """The changes to so many files that have waited longest, none left out between them."""
        files: dict[FileName, None] = {}
        oldest: list[WriteId] = []
        for write, file in self.pending.items():
            if file not in files:
                if len(files) == files_max:
                    break
                files[file] = None
            oldest.append(write)
        return oldest, files

    def _sync(self, dirty: dict[FileName, None]) -> None:
        if len(dirty) > synced_alone_max:
            self._sync_together(dirty)
            return
        for file in dirty:
            started = perf_counter()
            try:
                self._disk.sync(file)
            except Exception as error:
                raise self._fatal(f"could not sync {file}", error) from error
            self._counters.sync_seconds.observe(perf_counter() - started)

    def _sync_together(self, dirty: dict[FileName, None]) -> None:
        """A node with many logs: what its file system can do at once need not be done in turn."""
        started = perf_counter()
        try:
            self._disk.sync_all(dirty)
        except Exception as error:
            raise self._fatal(f"could not sync {len(dirty)} files", error) from error
        seconds = perf_counter() - started
        for _ in dirty:
            self._counters.sync_seconds.observe(seconds)

    def take_durable(self, limit: int) -> list[WriteId]:
        """The changes that are durable and the machine has not been told of, at most so many."""
        durable, self.durable = self.durable[:limit], self.durable[limit:]
        return durable

    # Changes

    def write(self, effect: Write) -> None:
        """Write it by the end of the turn."""
        # What ``_begin`` and ``_await_sync`` do, without the calls: this runs for every record.
        write = effect.id
        assert write > self.asked_max, "write ids count up"
        self.asked_max = write
        self.pending[write] = effect.file
        if self._replaces and effect.file in self._replaces:
            self._carry_out_replaces()
        if self._writes.add(effect) > gathered_bytes_max:
            self._carry_out_writes()

    def _truncate(self, effect: Truncate) -> None:
        if self._change(effect, self._disk.truncate, effect.file, effect.size_bytes):
            self._await_sync(effect)

    def _preallocate(self, effect: Preallocate) -> None:
        if self._change(effect, self._disk.preallocate, effect.file, effect.size_bytes):
            self._await_sync(effect)

    def _replace(self, effect: Replace) -> None:
        """Replace it by the end of the turn, together with others."""
        self._begin(effect)
        self._carry_out_writes()
        self.pending[effect.id] = effect.file
        self._replaces.setdefault(effect.file, []).append(effect)

    def _remove(self, effect: Remove) -> None:
        if self._change(effect, self._disk.remove, effect.file):
            self._already_durable(effect)

    def _change(self, effect: DiskChange, call: Callable[..., None], *arguments: object) -> bool:
        """Do it; False when the disk is full. Any other trouble leaves the disk unknown: we stop."""
        self._begin(effect)
        self._carry_out_writes()
        if effect.file in self._replaces:
            self._carry_out_replaces()
        try:
            call(*arguments)
        except DiskFull as error:
            self._fail(effect, error)
            return False
        except Exception as error:
            raise self._fatal("could not change its files", error) from error
        return True

    def _begin(self, effect: DiskChange) -> None:
        assert effect.id > self.asked_max, "write ids count up"
        self.asked_max = effect.id
        self._counters.writes += 1

    def _await_sync(self, effect: DiskChange) -> None:
        self.pending[effect.id] = effect.file
        self._dirty[effect.file] = None

    def _already_durable(self, effect: DiskChange) -> None:
        # The file as a whole is durable, so what was written to it before needs no sync any more.
        self._dirty.pop(effect.file, None)
        self.durable.append(effect.id)

    def _carry_out_writes(self) -> None:
        writes = self._writes
        if not writes:
            return
        self._counters.writes += writes.count
        self._counters.write_bytes += writes.size_bytes
        self._dirty.update(dict.fromkeys(writes.files()))
        try:
            failures = writes.carry_out(self._disk)
        except Exception as error:
            raise self._fatal("could not change its files", error) from error
        for write, full in failures:
            del self.pending[write.id]
            self._fail(write, full)

    def _carry_out_replaces(self, files: Sequence[FileName] | None = None) -> None:
        """Those of these files, or all of them."""
        if not self._replaces:
            return
        if files is None:
            replaces, self._replaces = self._replaces, {}
        elif not files:
            return
        else:
            replaces = {file: self._replaces.pop(file) for file in files}
        try:
            full = self._disk.replace_all({file: each[-1].data for file, each in replaces.items()})
        except Exception as error:
            raise self._fatal("could not change its files", error) from error
        for file, effects in replaces.items():
            if file not in full:
                # The file as a whole is durable, so what was written to it before needs no sync any more.
                self._dirty.pop(file, None)
                self._counters.write_bytes += len(effects[-1].data)
                continue
            for effect in effects:
                del self.pending[effect.id]
                self._fail(effect, full[file])

    # Reads

    def _read(self, effect: Read) -> None:
        self._counters.reads += 1
        self._carry_out_writes()
        if effect.file in self._replaces:
            self._carry_out_replaces()
        try:
            data = self._disk.read(effect.file, effect.offset, effect.size_bytes)
        except DiskReadFailed as error:
            self._counters.reads_failed += 1
            complain(self._counters.reads_failed, "read_failed", machine=self._name, why=error.what)
            self._tell((ReadFailed, (effect.id, error.what)))
        except Exception as error:
            raise self._fatal(f"could not read {effect.file}", error) from error
        else:
            self._tell((ReadBack, (effect.id, data)))

    # Trouble

    def _fail(self, effect: DiskChange, full: DiskFull) -> None:
        self._counters.writes_failed += 1
        complain(self._counters.writes_failed, "write_failed", machine=self._name, why=full.what)
        self.failed.add(effect.id)
        self._tell((WriteFailed, (effect.id, full.what)))

    def _fatal(self, what: str, error: Exception) -> NodeError:
        why = error.what if isinstance(error, MotetError) else str(error)
        return NodeError(
            f"{self._name} {what}: {why}",
            hint="check the disk, then start the node again; nothing unsynced was promised",
        )
