"""One node on the workbench: a machine, its disk, its timers, and what waits for either."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import msgspec

from motet.core.machine import (
    NS_PER_MS,
    CancelTimer,
    DiskChange,
    Effect,
    Event,
    Machine,
    Note,
    Now,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Remove,
    Replace,
    Send,
    SetTimer,
    Truncate,
    Work,
    Write,
    WriteFailed,
)
from motet.errors import BadScenario
from motet.ids import Address, FileName, ReadId, TimerName, WriteId

# The disk of one node on the workbench: what is durable, what is not yet, and what a crash leaves.

Files = dict[FileName, bytes]


class BenchDisk:
    """Files in memory, with the line between written and durable drawn by hand.

    Reads see what was written; a crash goes back to what is durable, plus whatever of the rest the script
    wants kept.
    """

    def __init__(self) -> None:
        self.durable: Files = {}
        #: asked for and not yet durable, oldest first
        self.pending: list[DiskChange] = []
        #: nothing can grow any more
        self.full = False
        #: files that cannot be read back, and why
        self.unreadable: dict[FileName, str] = {}

    def ask(self, change: DiskChange) -> str | None:
        """Take a change in; the reason when there is no room for it, and then nothing changes."""
        if self.full and self._grows(change):
            return "disk full"
        self.pending.append(change)
        return None

    def sync(self, file: FileName | None = None) -> list[WriteId]:
        """Make what is pending durable, on one file or on all of them; says which changes that were."""
        done = [change for change in self.pending if file in (None, change.file)]
        self.pending = [change for change in self.pending if file not in (None, change.file)]
        for change in done:
            _apply(self.durable, change)
        return [change.id for change in done]

    def crash(self, keep: Sequence[WriteId] = (), torn: tuple[WriteId, int] | None = None) -> None:
        """Forget what is pending but for the changes in ``keep`` and the first bytes of a torn one."""
        for change in self.pending:
            if torn is not None and change.id == torn[0]:
                _apply(self.durable, _torn(change, torn[1]))
            elif change.id in keep:
                _apply(self.durable, change)
        self.pending = []

    def files(self) -> Files:
        """What a read sees, in order of name."""
        files = dict(self.durable)
        for change in self.pending:
            _apply(files, change)
        return dict(sorted(files.items()))

    def read(self, file: FileName, offset: int, size_bytes: int | None) -> bytes:
        """Fewer bytes at the end of the file, none without the file."""
        end = None if size_bytes is None else offset + size_bytes
        return self.files().get(file, b"")[offset:end]

    def _grows(self, change: DiskChange) -> bool:
        size = len(self.files().get(change.file, b""))
        match change:
            case Write():
                return change.offset + len(change.data) > size
            case Preallocate():
                return change.size_bytes > size
            case Replace():
                return True  # the new content stands beside the old one until it takes its place
            case Truncate() | Remove():
                return False


def _apply(files: Files, change: DiskChange) -> None:
    content = files.get(change.file, b"")
    match change:
        case Write(offset=offset, data=data):
            padded = content.ljust(offset, b"\0")
            files[change.file] = padded[:offset] + data + padded[offset + len(data) :]
        case Replace(data=data):
            files[change.file] = data
        case Truncate(size_bytes=size):
            files[change.file] = content[:size]
        case Preallocate(size_bytes=size):
            files[change.file] = content.ljust(size, b"\0")
        case Remove():
            files.pop(change.file, None)


def _torn(change: DiskChange, size_bytes: int) -> Write:
    if not isinstance(change, Write) or not 0 <= size_bytes < len(change.data):
        raise BadScenario(
            f"#{change.id} cannot be torn after {size_bytes} bytes",
            hint="only a write can, inside its data; a replace is old or new",
        )
    return msgspec.structs.replace(change, data=change.data[:size_bytes])


Answer = Callable[[Now], Event]
Workshop = Callable[[Work, Now], Event]
"""Does a piece of work, and says how it ended."""


class WriteState(enum.Enum):
    """What has become of a write."""

    PENDING = "pending"
    DURABLE = "durable"
    REFUSED = "refused"


class BenchNode:
    """Runs one machine at a time, an incarnation after the other, over one disk that stays."""

    def __init__(self, name: Address, make: Callable[[], Machine], wall_ns: int) -> None:
        self.name = name
        self.make = make
        self.wall_ns = wall_ns
        self.disk = BenchDisk()
        #: writes stay pending until the script syncs
        self.sync_held = False
        #: does the work that the machine asks for; None: it asks for none
        self.workshop: Workshop | None = None
        self._forget()

    def _forget(self) -> None:
        """All that a crash takes (E6)."""
        self.machine: Machine | None = None
        #: timer → when it is due
        self.timers: dict[TimerName, int] = {}
        self.writes: dict[WriteId, WriteState] = {}
        self.reads: dict[ReadId, None] = {}
        #: sends whose write is pending, in the order of the effects
        self.withheld: list[Send] = []
        #: what the disk has to say and has not said yet: reads, and writes it refused
        self.answers: list[Answer] = []

    def running(self) -> Machine:
        """The machine; ``BadScenario`` if the node is down."""
        if self.machine is None:
            raise BadScenario(f"{self.name} does not run", hint="start it first")
        return self.machine

    def crash(self, keep: Sequence[WriteId] = (), torn: tuple[WriteId, int] | None = None) -> None:
        """Stop dead; of what is not durable, only ``keep`` and a part of ``torn`` survive (E4)."""
        for write in (*keep, *([] if torn is None else [torn[0]])):
            if write not in [change.id for change in self.disk.pending]:
                raise BadScenario(f"{self.name} has no pending write #{write} to keep")
        self.disk.crash(keep, torn)
        self._forget()

    def step(self, event: Event) -> list[Effect]:
        """Step the machine, and check what it owes: its invariants, and that it is a function (E8)."""
        machine = self.running()
        twin = machine.clone()
        effects = machine.step(event)
        assert twin.step(event) == effects, f"{self.name}: a clone does something else (E8)"
        assert twin.fingerprint() == machine.fingerprint(), f"{self.name}: a clone differs (E8)"
        broken = [f"{each.invariant} {each.what}" for each in machine.invariants()]
        assert not broken, f"{self.name} breaks {'; '.join(broken)}"
        return effects

    def perform(self, effect: Effect, monotonic_ns: int) -> None:
        """Carry out anything but a send."""
        match effect:
            case Write() | Replace() | Truncate() | Preallocate() | Remove():
                self._change(effect)
            case Read():
                self._read(effect)
            case SetTimer(timer=timer, after_ms=after_ms):
                # Never due at once, so that a machine that sets it again and again lets time pass.
                self.timers[timer] = monotonic_ns + max(1, after_ms * NS_PER_MS)
            case CancelTimer(timer=timer):
                self.timers.pop(timer, None)
            case Work():
                workshop = self.workshop
                assert workshop is not None, f"{self.name} asks for work, and nobody does it"
                self.answers.append(lambda now: workshop(effect, now))
            case Note():
                pass
            case _:
                raise AssertionError(f"{type(effect).__name__} is no effect the bench can perform")

    def state_of(self, send: Send) -> WriteState:
        """What has become of the write this message has to wait for."""
        if send.after is None:
            return WriteState.DURABLE
        state = self.writes.get(send.after)
        assert state is not None, (
            f"{self.name} sends after #{send.after}, which it never wrote (E3)"
        )
        return state

    def settle_write(self, write: WriteId, state: WriteState) -> list[Send]:
        """Note what has become of a write; returns the sends that waited for it."""
        assert self.writes[write] is not WriteState.DURABLE, f"#{write} ends twice (E5)"
        self.writes[write] = state
        waited = [send for send in self.withheld if send.after == write]
        self.withheld = [send for send in self.withheld if send.after != write]
        return waited

    def _change(self, change: DiskChange) -> None:
        assert change.id not in self.writes, f"{self.name} uses write #{change.id} twice"
        why = self.disk.ask(change)
        if why is None:
            self.writes[change.id] = WriteState.PENDING
            return
        self.writes[change.id] = WriteState.REFUSED
        self.answers.append(lambda now: WriteFailed(now, change.id, why))

    def _read(self, read: Read) -> None:
        assert read.id not in self.reads, f"{self.name} uses read #{read.id} twice"
        self.reads[read.id] = None
        self.answers.append(lambda now: self._read_answer(read, now))

    def _read_answer(self, read: Read, now: Now) -> Event:
        why = self.disk.unreadable.get(FileName(read.file))
        if why is not None:
            return ReadFailed(now, read.id, why)
        return ReadBack(now, read.id, self.disk.read(read.file, read.offset, read.size_bytes))
