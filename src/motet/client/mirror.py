"""A mirror: the feed of one database replayed into another, each change once and in its order.

What has one clock in the source becomes one transaction in the target, together with a note of how far the
mirror is. So the note is never ahead of what is there nor behind it, whatever is killed when, and two mirrors
of one name do everything once between them.

R1  The target shows, at each of its visible clocks, what the source showed at the clock in the note.
R2  Changes of a key come in the order of the source: its clocks rise along every key.

Only raw entries may become several transactions, when there are more of one clock than a transaction takes.
Whoever else writes to these streams of the target breaks R1.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from motet.client.change import Change
from motet.client.sync import Database
from motet.client.transaction import RowOp
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadCursor, BadInput, BadSchema, Conflict, OutcomeUnknown, TooLarge
from motet.limits import transaction_bytes_max, transaction_changes_max

MIRRORS = "motet.mirrors"
"""The stream of the target that has the notes, one key for each mirror."""

page_limit = 2_000
room_changes = transaction_changes_max - 2
"""The note is read and written in the same transaction."""

room_bytes = transaction_bytes_max - 64 * 1024
pause_seconds = 0.05
"""How long a mirror that has caught up waits for more."""


class MirrorNote(msgspec.Struct, frozen=True):
    """How far a mirror is."""

    #: the number of the source in hex
    source: str
    streams: tuple[str, ...]
    #: everything up to this clock of the source is there
    after: str = str(ZERO)
    #: and so many changes of the next clock
    done: int = 0

    @property
    def clock(self) -> Clock:
        return Clock.parse(self.after)


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What one run has done."""

    name: str
    streams: tuple[str, ...]
    #: of the target
    transactions: int
    changes: int
    #: the target shows what the source showed at this clock
    after: Clock


class Mirror:
    """One mirror, by its name."""

    def __init__(
        self,
        source: Database,
        target: Database,
        streams: Sequence[str] = (),
        name: str | None = None,
        together: int = 1,
        after: str | Clock | None = None,
    ) -> None:
        if source.database_id == target.database_id:
            raise BadInput("a database cannot be its own mirror", hint="name another target")
        if together < 1:
            raise BadInput(f"{together} changes together make no sense", hint="1 or more")
        self._source = source
        self._target = target
        self._identity = f"{source.database_id:016x}"
        self.name = name or self._identity
        #: transactions of the source are put together as long as they have no more changes than this
        self._together = together
        self._named = tuple(sorted(set(streams)))
        #: where a new mirror begins, as it was given and as a clock
        self._after = after
        self._begin = ZERO
        self.transactions = 0
        self.changes = 0

    def run(self, *, once: bool = False, stop: threading.Event | None = None) -> MirrorReport:
        """Replay until ``stop`` is set; with ``once`` until all is there that was committed before."""
        stop = stop or threading.Event()
        note = self._prepare()
        end = self._source.visible_clock(*note.streams, wait=True) if once else None
        while not stop.is_set():
            page = self._source.changes(
                *note.streams, after=note.clock, limit=page_limit, up_to=end
            )
            note = self._replay(page.changes, note)
            if not page.changes and not page.more:
                if once:
                    break
                stop.wait(pause_seconds)
        return MirrorReport(self.name, note.streams, self.transactions, self.changes, note.clock)

    # Beginning

    def _prepare(self) -> MirrorNote:
        """Have the streams in the target, and the note."""
        self._target.create_stream(MIRRORS, shards=1)
        found = self._note()
        if found is not None:
            self._check(found)
        known = {str(info.name): info for info in self._source.streams()}
        if found is None:
            names = self._named or tuple(sorted(name for name in known if name != MIRRORS))
            self._begin = self._clock_of_begin(names)
            found = MirrorNote(self._identity, names, str(self._begin))
        if not found.streams:
            raise BadInput("there is no stream to mirror", hint="create one in the source first")
        there = {str(info.name): info for info in self._target.streams()}
        for name in found.streams:
            if name not in known:
                self._source.changes(name, limit=1)  # says that there is none
            if name in there and _schema(there[name].schema) != _schema(known[name].schema):
                raise BadSchema(f"stream {name!r} of the target has another schema")
            if name not in there:
                self._target.create_stream(
                    name, schema=_schema(known[name].schema), shards=known[name].shards
                )
        return found

    def _clock_of_begin(self, streams: Sequence[str]) -> Clock:
        if not streams or self._after is None:
            return ZERO
        plan = self._source.feed_plan(streams, after=self._after, max_changes=1)
        return plan.splits[0][0]

    def _check(self, note: MirrorNote) -> None:
        if note.source != self._identity:
            raise BadCursor(
                f"mirror {self.name} is of database {note.source}, not of {self._identity}",
                hint="give this one a name of its own",
            )
        if self._named and self._named != note.streams:
            raise BadCursor(
                f"mirror {self.name} is of the streams {', '.join(note.streams)}",
                hint="name the same streams, or give this one a name of its own",
            )

    def _note(self) -> MirrorNote | None:
        found = self._target.transact(lambda txn: txn.get(MIRRORS, self.name))
        return None if found is None else msgspec.convert(found.row, MirrorNote)

    # Replaying

    def _replay(self, changes: Sequence[Change], note: MirrorNote) -> MirrorNote:
        """Apply a page. When somebody else was there, or may have been we, go on from the note."""
        for some, after in self._groups(changes, note):
            try:
                note = self._apply(some, note, after)
            except (Conflict, OutcomeUnknown):
                return self._note() or note
        return note

    def _groups(
        self, changes: Sequence[Change], note: MirrorNote
    ) -> Iterator[tuple[list[Change], MirrorNote]]:
        """What becomes one transaction each, and the note that goes with it."""
        waiting, last = Pile(), note
        for clock, group in groupby(changes, key=lambda change: change.raw.clock):
            some = Pile(list(group)[last.done if last is note else 0 :])
            through = MirrorNote(note.source, note.streams, str(clock))
            if waiting.changes and not waiting.takes(some, self._together):
                yield waiting.changes, last
                waiting = Pile()
            if some.fits:
                waiting.add(some)
            else:
                yield from _pieces(some.changes, note, last, through)
            last = through
        if waiting.changes:
            yield waiting.changes, last

    def _apply(self, changes: list[Change], note: MirrorNote, after: MirrorNote) -> MirrorNote:
        with self._target.transaction() as txn:
            found = txn.get(MIRRORS, self.name)
            there = None if found is None else msgspec.convert(found.row, MirrorNote)
            if (there or MirrorNote(note.source, note.streams, str(self._begin))) != note:
                raise Conflict(f"another mirror {self.name} is at work")
            for change in changes:
                txn.carry(change)
            op: RowOp = "insert" if found is None else "update"
            txn.change(MIRRORS, self.name, op, row=msgspec.to_builtins(after))
        self.transactions += 1
        self.changes += len(changes)
        return after


class Pile:
    """Changes that are to be one transaction."""

    def __init__(self, changes: Sequence[Change] = ()) -> None:
        self.changes = list(changes)
        self.size_bytes = sum(map(_size_bytes, changes))

    @property
    def fits(self) -> bool:
        """Whether a transaction takes them, and the note."""
        return len(self.changes) <= room_changes and self.size_bytes <= room_bytes

    def takes(self, other: Pile, changes_max: int) -> bool:
        """Whether it has room for another one."""
        changes = len(self.changes) + len(other.changes)
        size_bytes = self.size_bytes + other.size_bytes
        return changes <= min(changes_max, room_changes) and size_bytes <= room_bytes

    def add(self, other: Pile) -> None:
        self.changes += other.changes
        self.size_bytes += other.size_bytes


def _size_bytes(change: Change) -> int:
    raw = change.raw
    return len(raw.key) + len(raw.row or b"") + len(raw.before or b"")


def _pieces(
    changes: list[Change], note: MirrorNote, before: MirrorNote, through: MirrorNote
) -> Iterator[tuple[list[Change], MirrorNote]]:
    """Raw entries of one clock that are too many for one transaction, in several."""
    if any(change.op != "append" for change in changes):
        raise TooLarge(
            f"transaction {changes[0].transaction} has no room for the note of a mirror",
            hint="a transaction that is to be mirrored has a little less than what is allowed",
        )
    done = before.done if before is note else 0
    piece = Pile()
    for change in changes:
        one = Pile([change])
        if not piece.takes(one, room_changes):
            done += len(piece.changes)
            yield piece.changes, MirrorNote(note.source, note.streams, before.after, done)
            piece = Pile()
        piece.add(one)
    yield piece.changes, through


def _schema(data: bytes | None) -> object | None:
    if data is None:
        return None
    from motet.columnar.schema import decode_schema

    schema: object = decode_schema(data)
    return schema
