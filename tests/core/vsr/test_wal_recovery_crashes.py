"""Logs at the moment of a power cut: every promise is kept, and damage never makes a replica deny one."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.vsr.wal_disk import LAYOUT, ROOT, Disk, after, at

from motet.core.vsr.header import Header
from motet.core.vsr.wal_recovery import RecoveredWal


class History(msgspec.Struct):
    """A log at the moment of a power cut."""

    disk: Disk
    checkpoint: int
    acknowledged: int
    log_view: int
    view_headers: tuple[Header, ...]

    def recover(self, *, solo: bool = False) -> RecoveredWal:
        return self.disk.recover(
            self.checkpoint,
            solo=solo,
            log_view=self.log_view,
            view_headers=self.view_headers,
        )


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Some ops, perhaps a view change that cuts some off, more ops, and some in flight."""
    disk, first = Disk(), draw(st.integers(0, 50))
    disk.append(first, headed=max(0, first - draw(st.integers(0, 8))))
    cut = draw(st.integers(0, min(first, 7)))
    log_view = 1
    view_headers: tuple[Header, ...] = (after(ROOT),)
    checkpoint = (
        (first - cut) // 8 * 8 if draw(st.booleans()) else max(0, (first - cut) // 8 * 8 - 8)
    )
    if cut:
        del disk.log[-cut:]
        log_view, view_headers = 2, tuple(disk.log[-3:])
    more = draw(st.integers(0, max(0, checkpoint + 16 - disk.log[-1].op)))
    disk.append(more, headed=draw(st.integers(0, more)), view=log_view)
    newest = disk.log[-1]
    for _ in range(draw(st.integers(0, 8))):
        newest = after(newest, view=log_view)
        landed = draw(st.lists(st.booleans(), min_size=5, max_size=5))
        disk.prepare(newest, landed=landed.__getitem__)
    return History(disk, checkpoint, disk.log[-1].op, log_view, view_headers)


@given(histories())
def test_a_power_cut_alone_leaves_every_promise_and_certainty(history: History) -> None:
    wal = history.recover()
    assert wal.head_is_certain
    assert wal.refused is None
    assert not any(slot.faulty for slot in wal.slots)
    for op in range(history.checkpoint, history.acknowledged + 1):
        assert at(wal, op).header == history.disk.log[op]
        assert not at(wal, op).dirty
    assert wal.op_head is not None
    assert wal.op_head >= history.acknowledged


@given(histories())
def test_alone_a_power_cut_is_survived_too(history: History) -> None:
    wal = history.recover(solo=True)
    assert wal.refused is None
    assert wal.op_head is not None
    assert wal.op_head >= history.acknowledged
    for op in range(history.checkpoint + 1, history.acknowledged + 1):
        assert at(wal, op).header == history.disk.log[op]
    for op in range(history.acknowledged + 1, wal.op_head + 1):
        found = at(wal, op).header
        assert found is not None
        assert found.op == op


@given(st.data(), histories())
def test_with_damage_no_promise_is_denied(data: st.DataObject, history: History) -> None:
    places = st.tuples(st.booleans(), st.integers(0, LAYOUT.slots - 1), st.sampled_from([3, 600]))
    for is_header, place, at_byte in data.draw(st.lists(places, max_size=4)):
        if is_header:
            history.disk.rot_header(place)
        else:
            history.disk.rot_prepare(place, at_byte)
    wal = history.recover()
    for op in range(history.checkpoint + 1, history.acknowledged + 1):
        slot = at(wal, op)
        assert slot.header in (None, history.disk.log[op])
        assert slot.faulty or (slot.header is not None and not slot.dirty)
    assert wal.op_head is not None
    assert not wal.head_is_certain or wal.op_head >= history.acknowledged
