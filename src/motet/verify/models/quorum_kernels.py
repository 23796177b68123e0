"""Quorum inserts over packed states.

The packing uses what the readable model implies: record i brings data i under id i, so the log is its
length; the insert in flight is the last record; inserts fail one after the other, so the failed ones are
a set. Two words:

word 0   for each of up to four replicas, from bit 10·r on: is_active (1), log_pointer - 1 (3), local_parts
         (6); members of the quorum (4) at 40, in flight (1) at 44, length of the log (3) at 45, failed
         parts (6) at 48, length of the history (4) at 54, reads so far (3) at 58
word 1   the history, five bits an event: kind (2) above record id (3), the first event lowest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from motet.verify.explore.kernels import Kernels, Packed
from motet.verify.model import Model
from motet.verify.models.merge_tree import LogRecord, Replica
from motet.verify.models.quorum import (
    END_INSERT,
    FAILED_INSERT,
    READ,
    START_INSERT,
    Event,
    Kind,
    Quorum,
    QuorumNode,
    State,
)

if TYPE_CHECKING:
    from motet.verify.explore.kernels import Column, Flags, Rows

    Step = Callable[[list[Column]], tuple[Rows, list[Column]]]


# The properties of a quorum's history over packed histories: one byte an event while they are judged.

NOTHING = np.uint8(4)
"""The kind of an event that is not there."""


def _events(history: Column, length: Column) -> Iterator[tuple[Any, Any]]:
    """(kinds, record ids) of the first events, the second events, and so on."""
    for position in range(int(length.max(initial=0))):
        code = (history >> np.uint64(5 * position) & np.uint64(31)).astype(np.uint8)
        yield np.where(length > position, code >> np.uint8(3), NOTHING), code & np.uint8(7)


def _bit(record_id: Any) -> Any:
    return np.uint8(1) << record_id


def read_after_write(history: Column, length: Column) -> Flags:
    """No insert begins or ends after its record was read."""
    good = np.ones(len(history), dtype=bool)
    seen = np.zeros(len(history), dtype=np.uint8)
    for kind, record_id in _events(history, length):
        insert = (kind == START_INSERT) | (kind == END_INSERT)
        good &= ~(insert & (seen & _bit(record_id) != 0))
        seen |= np.where(kind == READ, _bit(record_id), np.uint8(0))
    return good


def end_or_failed_after_start_write(history: Column, length: Column) -> Flags:
    """No insert ends or fails before it has begun."""
    good = np.ones(len(history), dtype=bool)
    begun = np.zeros(len(history), dtype=np.uint8)
    for kind, record_id in _events(history, length):
        ends = (kind == END_INSERT) | (kind == FAILED_INSERT)
        good &= ~(ends & (begun & _bit(record_id) == 0))
        begun |= np.where(kind == START_INSERT, _bit(record_id), np.uint8(0))
    return good


def monotonic_read(history: Column, length: Column) -> Flags:
    """Reads see records in the order in which their inserts ended."""
    absent = np.uint8(255)
    ended = np.full((8, len(history)), absent, dtype=np.uint8)
    rows = np.arange(len(history))
    for position, (kind, record_id) in enumerate(_events(history, length)):
        where = np.flatnonzero(kind == END_INSERT)
        ended[record_id[where], where] = position
    good = np.ones(len(history), dtype=bool)
    last = np.zeros(len(history), dtype=np.uint8)
    for kind, record_id in _events(history, length):
        at = ended[record_id, rows]
        counts = (kind == READ) & (at != absent)
        good &= ~(counts & (at < last))
        last = np.where(counts, np.maximum(last, at), last)
    return good


def no_stale_read(history: Column, length: Column) -> Flags:
    """No read is older than an insert that had ended before it."""
    good = np.ones(len(history), dtype=bool)
    newest = np.zeros(len(history), dtype=np.uint8)
    for kind, record_id in _events(history, length):
        good &= ~((kind == READ) & (record_id < newest))
        newest = np.where(kind == END_INSERT, np.maximum(newest, record_id), newest)
    return good


HISTORY_CHECKS: dict[str, Callable[[Column, Column], Flags]] = {
    "ReadAfterWrite": read_after_write,
    "EndOrFailedAfterStartWrite": end_or_failed_after_start_write,
    "MonotonicRead": monotonic_read,
    "NoStaleRead": no_stale_read,
}


REPLICA, PARTS = 10, 4
MEMBERS, FLIGHT, LENGTH, FAILED, EVENTS, READS = 40, 44, 45, 48, 54, 58
RECORDS_MAX, REPLICAS_MAX, EVENTS_MAX = 6, 4, 12

u = np.uint64
ONE = u(1)


class QuorumKernels(Kernels[State]):
    """The kernels of ``quorum``."""

    columns = 2
    acceptance = (
        {"replicas": 2, "quorum": 2, "records": 2, "reads": 2},
        {"replicas": 3, "quorum": 2, "records": 1, "reads": 1},
    )

    def __init__(self, model: Model[State]) -> None:
        super().__init__(model)
        assert isinstance(model, Quorum)
        self.replicas, self.least = model.replicas, model.quorum
        self.records, self.reads = model.records, model.reads
        self.stale = any(action.name == "quorum_read_without_lin" for action in model.actions())

    @classmethod
    def refuses(cls, model: Model[Any]) -> str | None:
        events = 2 * model.settings["records"] + model.settings["reads"]
        if model.settings["replicas"] > REPLICAS_MAX or events > EVENTS_MAX:
            return f"{model.name} of this size does not fit into two words"
        return None

    # packing

    def pack(self, state: State) -> Packed:
        word = 0
        for r, one in enumerate(state.replica):
            parts = sum(1 << data for data in one.local_parts)
            field = one.is_active | one.log_pointer - 1 << 1 | parts << PARTS
            word |= field << REPLICA * r
        if state.quorum is not None:
            word |= sum(1 << r for r in state.quorum.replicas) << MEMBERS | 1 << FLIGHT
        word |= len(state.log) << LENGTH | len(state.history) << EVENTS
        word |= sum(1 << part.data for part in state.failed_parts) << FAILED
        word |= sum(event.kind == READ for event in state.history) << READS
        history = sum(
            (event.kind << 3 | event.record_id) << 5 * position
            for position, event in enumerate(state.history)
        )
        return word, history

    def unpack(self, packed: Packed) -> State:
        word, history = packed
        length = word >> LENGTH & 7
        events = tuple(
            Event(Kind(code >> 3), code & 7)
            for code in (history >> 5 * k & 31 for k in range(word >> EVENTS & 15))
        )
        ended = [event.record_id for event in events if event.kind == END_INSERT]
        members = frozenset(r for r in range(self.replicas) if word >> MEMBERS + r & 1)
        in_flight = QuorumNode(length - 1, members, length - 1)
        return State(
            log=tuple(LogRecord(i, i) for i in range(length)),
            replica=tuple(self._replica(word >> REPLICA * r) for r in range(self.replicas)),
            next_record_data=length,
            quorum=in_flight if word >> FLIGHT & 1 else None,
            failed_parts=tuple(LogRecord(i, i) for i in range(6) if word >> FAILED + i & 1),
            last_added_data=ended[-1] if ended else None,
            history=events,
        )

    def _replica(self, field: int) -> Replica:
        parts = frozenset(i for i in range(RECORDS_MAX) if field >> PARTS + i & 1)
        return Replica(bool(field & 1), False, (field >> 1 & 7) + 1, parts)

    # actions

    def steps(self) -> Iterator[tuple[str, Step]]:
        read = "QuorumReadWithoutLin" if self.stale else "QuorumReadLin"
        for r in range(self.replicas):
            yield "QuorumInsert", self._bound(self._insert, r)
            yield read, self._bound(self._read, r)
            yield "ExecuteLog", self._bound(self._execute_log, r)
            yield "UpdateQuorum", self._bound(self._update_quorum, r)
            yield "EndQuorum", self._bound(self._end_quorum, r)
            yield "FailedQuorum", self._bound(self._failed_quorum, r)
            yield "BecomeInactive", self._bound(self._become_inactive, r)
            yield "BecomeActive", self._bound(self._become_active, r)
        yield "LegitimateTermination", lambda columns: self._termination(*columns)

    def _bound(self, action: Callable[[Column, Column, int], Any], r: int) -> Step:
        return lambda columns: action(columns[0], columns[1], r)

    def _logged(self, word: Column, history: Column, kind: Kind, record_id: Any) -> list[Column]:
        """The words with one more event in the history."""
        at = _bits(word, EVENTS, 4) * u(5)
        event = u(int(kind) << 3) | record_id
        return [word + (ONE << u(EVENTS)), history | event << at]

    def _insert(self, word: Column, history: Column, r: int) -> Any:
        idle = word & u(1 << FLIGHT) == 0
        where = np.flatnonzero(idle & (_bits(word, LENGTH, 3) < self.records) & _active(word, r))
        word, history = word[where], history[where]
        data = _bits(word, LENGTH, 3)
        word = word | ONE << data + u(REPLICA * r + PARTS)
        word = word + u((1 << LENGTH) + (1 << FLIGHT) + (1 << MEMBERS + r))
        return where, self._logged(word, history, START_INSERT, data)

    def _visible(self, word: Column, r: int) -> Column:
        """The parts of a replica without the one in flight and the failed ones."""
        length = _bits(word, LENGTH, 3)
        flying = _bits(word, FLIGHT, 1) << np.maximum(length, ONE) - ONE
        return _bits(word, REPLICA * r + PARTS, 6) & ~(flying | _bits(word, FAILED, 6))

    def _read(self, word: Column, history: Column, r: int) -> Any:
        where = np.flatnonzero(_active(word, r) & (_bits(word, READS, 3) < self.reads))
        seen = self._visible(word[where], r)
        possible = seen != 0
        if not self.stale:
            chosen = word[where]
            committed = _bits(chosen, LENGTH, 3) - _bits(chosen, FLIGHT, 1)
            committed = committed - _count(_bits(chosen, FAILED, 6))
            possible &= _count(seen) == committed
        where, seen = where[possible], seen[possible]
        newest = _highest(seen)
        words = self._logged(word[where], history[where], READ, newest)
        return where, [words[0] + (ONE << u(READS)), words[1]]

    def _stands(self, word: Column, r: int) -> tuple[Flags, Column, Flags]:
        """Whether a replica has something to execute; its next record; whether that is in flight."""
        next_record, length = _bits(word, REPLICA * r + 1, 3), _bits(word, LENGTH, 3)
        flying = (word & u(1 << FLIGHT) != 0) & (next_record + ONE == length)
        return _active(word, r) & (next_record < length), next_record, flying

    def _fetched(self, word: Column, next_record: Column, r: int) -> Column:
        word = word | ONE << next_record + u(REPLICA * r + PARTS)
        return word + u(1 << REPLICA * r + 1)

    def _execute_log(self, word: Column, history: Column, r: int) -> Any:
        ready, next_record, flying = self._stands(word, r)
        failed = _bits(word, FAILED, 6) >> next_record & ONE != 0
        member = word & u(1 << MEMBERS + r) != 0
        where = np.flatnonzero(ready & np.where(flying, member, ~failed))
        return where, [self._fetched(word[where], next_record[where], r), history[where]]

    def _alive(self, word: Column) -> Flags:
        alive = np.zeros(len(word), dtype=bool)
        for r in range(self.replicas):
            alive |= _active(word, r) & (word & u(1 << MEMBERS + r) != 0)
        return alive

    def _update_quorum(self, word: Column, history: Column, r: int) -> Any:
        ready, next_record, flying = self._stands(word, r)
        outside = word & u(1 << MEMBERS + r) == 0
        where = np.flatnonzero(ready & flying & outside & self._alive(word))
        after = self._fetched(word[where], next_record[where], r) | u(1 << MEMBERS + r)
        return where, [after, history[where]]

    def _landed(self, word: Column) -> Column:
        return word & u(~(0x1F << MEMBERS) & (1 << 64) - 1)

    def _end_quorum(self, word: Column, history: Column, r: int) -> Any:
        member = word & u(1 << MEMBERS + r) != 0
        enough = _count(_bits(word, MEMBERS, 4)) >= self.least
        where = np.flatnonzero(member & enough & _active(word, r))
        word, history = word[where], history[where]
        record_id = _bits(word, LENGTH, 3) - ONE
        return where, self._logged(self._landed(word), history, END_INSERT, record_id)

    def _failed_quorum(self, word: Column, history: Column, r: int) -> Any:
        ready, next_record, flying = self._stands(word, r)
        outside = word & u(1 << MEMBERS + r) == 0
        where = np.flatnonzero(ready & flying & outside & ~self._alive(word))
        word, record_id = word[where], next_record[where]
        after = self._landed(word) | ONE << record_id + u(FAILED)
        return where, self._logged(after, history[where], FAILED_INSERT, record_id)

    def _become_inactive(self, word: Column, history: Column, r: int) -> Any:
        where = np.flatnonzero(_active(word, r))
        return where, [word[where] ^ u(1 << REPLICA * r), history[where]]

    def _become_active(self, word: Column, history: Column, r: int) -> Any:
        where = np.flatnonzero(~_active(word, r))
        return where, [word[where] ^ u(1 << REPLICA * r), history[where]]

    def _termination(self, word: Column, history: Column) -> Any:
        ended = (_bits(word, LENGTH, 3) == self.records) & (word & u(1 << FLIGHT) == 0)
        where = np.flatnonzero(ended & (_bits(word, READS, 3) >= self.reads))
        return where, [word[where], history[where]]

    # properties

    def invariants(self) -> Mapping[str, Callable[[list[Column]], Flags]]:

        found: dict[str, Callable[[list[Column]], Flags]] = {"QuorumSelect": self._quorum_select}
        for title, check in HISTORY_CHECKS.items():
            found[title] = lambda columns, check=check: check(  # type: ignore[misc]
                columns[1], _bits(columns[0], EVENTS, 4)
            )
        return found

    def _quorum_select(self, columns: list[Column]) -> Flags:
        word = columns[0]
        length, failed = _bits(word, LENGTH, 3), _bits(word, FAILED, 6)
        done = length - _bits(word, FLIGHT, 1)
        good = np.ones(len(word), dtype=bool)
        for record in range(self.records):
            holders = np.zeros(len(word), dtype=np.uint8)
            for r in range(self.replicas):
                holders += (word & u(1 << REPLICA * r + PARTS + record) != 0).view(np.uint8)
            excused = (done <= record) | (failed & u(1 << record) != 0)
            good &= excused | (holders >= self.least)
        return good

    def canonical(self, columns: list[Column]) -> list[Column]:
        word = columns[0]
        keys = [
            _bits(word, REPLICA * r, 10) | _bits(word, MEMBERS + r, 1) << u(10)
            for r in range(self.replicas)
        ]
        for end in range(self.replicas - 1, 0, -1):  # a sorting network: bubbles
            for r in range(end):
                keys[r], keys[r + 1] = (
                    np.minimum(keys[r], keys[r + 1]),
                    np.maximum(keys[r], keys[r + 1]),
                )
        mask = (1 << REPLICA * REPLICAS_MAX) - 1 | 0xF << MEMBERS
        word = word & u(~mask & (1 << 64) - 1)
        for r, key in enumerate(keys):
            word = word | (key & u(1023)) << u(REPLICA * r) | (key >> u(10)) << u(MEMBERS + r)
        return [word, columns[1]]


def _bits(word: Column, at: int, width: int) -> Column:
    return word >> u(at) & u((1 << width) - 1)


def _active(word: Column, r: int) -> Flags:
    is_set: Flags = word & u(1 << REPLICA * r) != 0
    return is_set


_COUNT = np.array([i.bit_count() for i in range(64)], dtype=np.uint64)
_HIGHEST = np.array([max(i.bit_length() - 1, 0) for i in range(64)], dtype=np.uint64)


def _count(small: Column) -> Column:
    return _COUNT[small]


def _highest(small: Column) -> Column:
    return _HIGHEST[small]
