"""The properties of a quorum's history over packed histories: one byte an event while they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from motet.verify.models.quorum import END_INSERT, FAILED_INSERT, READ, START_INSERT

if TYPE_CHECKING:
    from motet.verify.explore.kernels import Column, Flags

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
