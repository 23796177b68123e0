"""The vocabulary in which pure cores and their drivers talk: events in, effects out.

A *machine* is a protocol written down as data and one verb::

    effects = machine.step(event)

Nothing else changes a machine. A driver carries the effects out, and what comes of them (a write that
reached the disk, a timer that ran out, a message that came in) enters as the next event. Three drivers
run the same machines: a real node, the seeded simulator, and the explorer that tries every order.

Rules, each kept by all drivers:

E1  A step runs to completion. It never waits, and its effects are a finished list.
E2  The effects of one step are carried out in the order of the list.
E3  *Durable before promised.* A ``Send`` whose ``after`` names a write leaves only when that write is
    on disk. A crash before that loses the send together with the write.
E4  After a crash a file holds all that was durable, and of the rest any subset, torn between sectors.
    What a machine may rely on is ``Written``, and nothing before it.
E5  Every ``Write``, ``Replace``, ``Truncate``, ``Preallocate`` and ``Remove`` ends in exactly one
    ``Written`` or ``WriteFailed``; every ``Read`` in one ``ReadBack`` or ``ReadFailed``; every ``Work`` in
    one ``WorkDone`` or ``WorkFailed``; unless the node stops first.
E6  A crash forgets the machine. The next incarnation is a new machine whose first event is ``Started``;
    what it wants to know of its past, it reads from its files.
E7  A message may be lost, repeated, delayed or overtaken, but never changed.
E8  Time reaches a machine only as ``event.now``. A step is a function of state and event, so a recorded
    run replays exactly.

State is plain data (ints, strings, bytes, tuples, lists, dicts, structs): it can be cloned,
fingerprinted and printed; no closures, generators or callbacks.
"""

from __future__ import annotations

from typing import Protocol, Self

import msgspec

from motet.ids import Address, FileName, ReadId, TimerName, WorkId, WriteId

NS_PER_MS = 1_000_000


class Now(msgspec.Struct, frozen=True):
    """One reading of a node's two clocks."""

    #: never goes back within one incarnation; its zero means nothing
    monotonic_ns: int
    #: time of day since 1970; may jump either way
    wall_ns: int

    @property
    def wall_ms(self) -> int:
        return self.wall_ns // NS_PER_MS


class Message(msgspec.Struct, frozen=True):
    """What machines send each other. Each core derives its own types from it, tagged, one per meaning."""


# Events: what can happen to a machine


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something that happened, and when. Do not subclass outside this module."""

    now: Now


class Started(Event, frozen=True):
    """The first event of an incarnation. ``nonce`` is fresh randomness, different every time."""

    nonce: int


class Received(Event, frozen=True):
    """A message has come in. ``sender`` is who sent it; what it claims inside is up to the protocol."""

    sender: Address
    message: Message
    #: another message for the same machine follows in this turn: what can wait for it may
    is_followed: bool = False


class Written(Event, frozen=True):
    """The write is durable."""

    write: WriteId


class WriteFailed(Event, frozen=True):
    """The write did not happen (a full disk); the file is as it was. A failed sync stops the node."""

    write: WriteId
    why: str


class ReadBack(Event, frozen=True):
    """What a read found: shorter than asked at the end of the file, empty when there is no file."""

    read: ReadId
    data: bytes


class ReadFailed(Event, frozen=True):
    """The disk cannot give these bytes back. They are not empty: they are unknown."""

    read: ReadId
    why: str


class WorkDone(Event, frozen=True):
    """Work has ended, and what came of it."""

    work: WorkId
    result: Message | None


class WorkFailed(Event, frozen=True):
    """Work has ended without a result; nothing of it is left."""

    work: WorkId
    why: str


class ClientLeft(Event, frozen=True):
    """The connection of a client is gone: nobody is there to be answered, or will be under this name."""

    client: Address


class Fired(Event, frozen=True):
    """A timer has run out. A timer fires once; set it again to go on."""

    timer: TimerName


# Effects: what a machine wants done


class Effect(msgspec.Struct, frozen=True, tag=True):
    """Something to be done by the driver. Do not subclass outside this module."""


class Send(Effect, frozen=True):
    """Send a message; if ``after`` names a write, not before that write is durable (E3)."""

    to: Address
    message: Message
    after: WriteId | None = None


class Write(Effect, frozen=True):
    """Write bytes at an offset, growing the file as needed, and make them durable."""

    id: WriteId
    file: FileName
    offset: int
    data: bytes


class Replace(Effect, frozen=True):
    """Give the file this content, whole: after a crash it has the old content or the new."""

    id: WriteId
    file: FileName
    data: bytes


class Truncate(Effect, frozen=True):
    """Cut the file to this size, durably."""

    id: WriteId
    file: FileName
    size_bytes: int


class Preallocate(Effect, frozen=True):
    """Make the file at least this large, zero-filled, so that later writes need no new blocks."""

    id: WriteId
    file: FileName
    size_bytes: int


class Remove(Effect, frozen=True):
    """Remove the file, durably; no file is fine too."""

    id: WriteId
    file: FileName


class Read(Effect, frozen=True):
    """Read bytes; ``size_bytes`` None means to the end of the file."""

    id: ReadId
    file: FileName
    offset: int = 0
    size_bytes: int | None = None


class Work(Effect, frozen=True):
    """Do something heavy with bytes that the machine does not see: fetch, keep, merge, remove files."""

    id: WorkId
    task: Message


class SetTimer(Effect, frozen=True):
    """Fire this timer after so long; setting a timer that runs moves it."""

    timer: TimerName
    after_ms: int
    #: it recurs, and its moment does not matter: a driver may fire it together with others, up to half of
    #: ``after_ms`` sooner or later
    in_step: bool = False


class CancelTimer(Effect, frozen=True):
    """Forget this timer; one that does not run is fine too."""

    timer: TimerName


class Note(Effect, frozen=True):
    """A named fact worth a line: logged by a node, traced by the simulator, counted as a coverage mark."""

    what: str
    detail: str = ""


DiskChange = Write | Replace | Truncate | Preallocate | Remove
"""The effects that end in ``Written`` or ``WriteFailed``."""


class Violation(msgspec.Struct, frozen=True):
    """An invariant that does not hold: its name as in the core's essay, and what was seen."""

    invariant: str
    what: str


class Machine(Protocol):
    """What a driver needs of a core."""

    def step(self, event: Event) -> list[Effect]:
        """Take one event; the only way to change the machine."""

    def clone(self) -> Self:
        """An independent copy: stepping one never changes the other."""

    def fingerprint(self) -> bytes:
        """Equal exactly for equal states, in every process and Python; see ``core.fingerprint``."""

    def invariants(self) -> list[Violation]:
        """What does not hold right now; empty when all is well. Cheap enough to call after each step."""
