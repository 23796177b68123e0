"""A log after a restart: nothing that was promised is denied, and a power cut alone makes nobody unsure."""

from __future__ import annotations

import pytest
from tests.core.vsr.wal_disk import LAYOUT, ROOT, Disk, after, at, ops, state

from motet.core.vsr.sectors import sector_bytes
from motet.core.vsr.wal_layout import read_prepare
from motet.core.vsr.wal_recovery import recover, views_of
from motet.ids import Op, View


def test_a_new_log_has_its_root_and_certainty() -> None:
    wal = Disk().recover()
    assert (wal.op_head, wal.head_is_certain, wal.refused, wal.torn) == (0, True, None, 0)
    assert wal.cases == ["wal_case_K", "wal_case_Q"]
    assert state(wal, 0) == "Q: 0"
    assert state(wal, 1) == "K: none dirty"


def test_headers_that_were_not_written_yet_are_to_be_fixed() -> None:
    wal = ops(10, headed=7).recover()
    assert (wal.op_head, wal.head_is_certain) == (10, True)
    assert [state(wal, op) for op in (7, 8, 10, 11)] == [
        "Q: 7",
        "L: 8 fix",
        "L: 10 fix",
        "K: none dirty",
    ]


def test_older_content_stays_and_is_not_the_head() -> None:
    disk = ops(40, headed=38)
    wal = disk.recover(checkpoint=32)
    assert (wal.op_head, wal.head_is_certain) == (40, True)
    assert state(wal, 40) == "R: 40 fix"
    assert state(wal, 41) == "Q: 9"
    assert at(wal, 32).header == disk.log[32]
    assert disk.recover(checkpoint=40).op_head == 40


def test_a_torn_write_over_nothing_or_over_something_older_was_never_promised() -> None:
    disk = ops(33)
    wal = disk.recover(checkpoint=24)
    assert (wal.op_head, state(wal, 34)) == (33, "Q: 2")
    disk.prepare(after(disk.log[33], view=3), landed=lambda sector: sector == 0)
    wal = disk.recover(checkpoint=24)
    assert (wal.op_head, wal.head_is_certain, wal.torn) == (33, True, 1)
    assert state(wal, 34) == "K: none dirty"


def test_a_torn_write_over_what_had_been_promised_is_damage() -> None:
    disk = ops(6)
    disk.prepare(after(disk.log[3], view=3), landed=lambda sector: sector > 0)
    wal = disk.recover()
    assert state(wal, 4) == "C: 4 dirty faulty"
    assert (wal.torn, wal.op_head, wal.head_is_certain) == (0, 6, True)


@pytest.mark.parametrize(
    ("kind", "op", "expected", "head", "is_certain"),
    [
        ("prepare", 5, "C: 5 dirty faulty", 10, True),
        ("prepare", 9, "B: none dirty faulty", 10, True),
        ("prepare", 10, "B: none dirty faulty", 9, False),
        ("prepare", 15, "B: none dirty faulty", 10, False),
        ("prepare", 25, "B: none dirty faulty", 10, True),  # could not have been prepared yet
        ("header", 5, "H: none dirty faulty", 10, True),
        ("header", 10, "G: 10 fix", 10, True),
        ("header", 15, "E: none dirty faulty", 10, False),
    ],
)
def test_damage_to_one_ring(kind: str, op: int, expected: str, head: int, is_certain: bool) -> None:
    disk = ops(10, headed=8)
    (disk.rot_prepare if kind == "prepare" else disk.rot_header)(op)
    wal = disk.recover()
    assert state(wal, op) == expected
    assert (wal.op_head, wal.head_is_certain, wal.refused) == (head, is_certain, None)


def test_damage_where_the_head_is_the_checkpoint() -> None:
    disk = ops(8)
    disk.rot_prepare(12)
    assert not disk.recover(checkpoint=8).head_is_certain
    disk.rot_prepare(8)
    disk.rot_prepare(12)  # the same bits again: it is whole
    assert disk.recover(checkpoint=8).head_is_certain  # the superblock has the checkpoint's header


def test_a_prepare_that_was_lost_after_its_header_was_written() -> None:
    disk = ops(4)
    lost = after(disk.log[-1])
    disk.head(lost)
    wal = disk.recover()
    assert state(wal, 5) == "N: 5 dirty faulty"
    assert wal.op_head == 5
    disk = ops(36)
    disk.head(after(disk.log[-1]))
    wal = disk.recover(checkpoint=32)
    assert state(wal, 37) == "S: 37 dirty faulty"


def test_what_is_beyond_the_checkpoints_reach_is_cut() -> None:
    wal = ops(10, headed=9).recover(prepare_max=8)
    assert [state(wal, op) for op in (8, 9, 10)] == ["Q: 8", "P: none dirty", "M: none dirty"]
    assert (wal.op_head, wal.head_is_certain) == (8, True)


def test_content_of_a_later_lap_is_not_ours() -> None:
    wal = ops(40).recover(checkpoint=0)
    assert state(wal, 40) == "A: none dirty faulty"
    assert wal.op_head == 24  # 25 to 31 are beyond this checkpoint
    assert wal.head_is_certain


def test_an_op_of_two_views_is_faulty_and_not_named() -> None:
    disk = ops(5)
    disk.prepare(after(disk.log[4], view=2))
    wal = disk.recover()
    assert state(wal, 5) == "T: none dirty faulty"
    assert (wal.op_head, wal.head_is_certain) == (4, False)


def test_what_a_view_left_behind_is_not_part_of_the_log() -> None:
    disk = ops(8)
    known = (disk.log[3], disk.log[4])
    again = disk.prepare(after(disk.log[4], view=2))  # acknowledged, its header not written
    wal = disk.recover(log_view=2, view_headers=known)
    assert state(wal, 5) == "L: 5 fix"
    assert at(wal, 5).header == again
    assert state(wal, 6) == "K: none dirty"
    assert (wal.op_head, wal.head_is_certain) == (5, True)
    disk.rot_prepare(5)
    wal = disk.recover(log_view=2, view_headers=known)
    assert state(wal, 5) == "B: none dirty faulty"  # not the first 5, which would deny the second
    assert (wal.op_head, wal.head_is_certain) == (4, False)


def test_the_views_that_an_op_can_be_of() -> None:
    second = after(after(ROOT, view=1), view=2)
    fifth = after(after(after(second, view=3), view=4), view=4)
    headers = (second, fifth)
    found = [views_of(Op(op), View(6), headers) for op in (1, 2, 3, 5, 6)]
    assert found == [(0, 2), (2, 2), (2, 4), (4, 4), (6, 6)]


def test_the_hook_of_a_newer_view_says_nothing_of_the_ops_above_it() -> None:
    hook = after(after(ROOT, view=1), view=7)
    above = after(after(hook, view=5), view=6)  # of the log that the replica had before
    assert views_of(Op(3), View(6), (hook, above)) == (0, 6)
    assert views_of(Op(1), View(6), (hook, above)) == (0, 7)


def test_above_the_hook_of_a_newer_view_two_prepares_of_an_op_are_not_denied() -> None:
    disk = ops(4)
    other = after(disk.log[2], view=2)
    disk.prepare(other)
    hook = after(disk.log[1], view=3)
    head = after(other, view=2)
    disk.prepare(head)
    wal = disk.recover(log_view=2, view_headers=(hook, head))
    assert state(wal, 3) == "T: none dirty faulty"


def test_a_short_ring_of_headers_is_damage() -> None:
    disk = ops(3)
    reads = [
        read_prepare(bytes(disk.file[start : start + LAYOUT.slot_bytes]))
        for start in map(LAYOUT.prepare_offset, range(LAYOUT.slots))
    ]
    wal = recover(LAYOUT, b"", reads, Op(0), Op(24), solo=False)
    assert state(wal, 1) == "H: none dirty faulty"
    assert state(wal, 3) == "G: 3 fix"


def test_alone_a_damaged_header_is_written_again() -> None:
    disk = ops(6)
    disk.rot_header(3)
    disk.rot_header(20)
    wal = disk.recover(solo=True)
    assert (wal.op_head, wal.head_is_certain, wal.refused) == (6, True, None)
    assert [state(wal, op) for op in (3, 20)] == ["I: 3 fix", "F: none dirty"]


@pytest.mark.parametrize("op", [3, 6])
def test_alone_damage_up_to_the_head_is_refused(op: int) -> None:
    disk = ops(6)
    disk.rot_prepare(op)
    wal = disk.recover(solo=True)
    assert (wal.op_head, wal.head_is_certain) == (None, False)
    assert wal.refused == f"op {op} is damaged, and there is no other replica"


def test_alone_damage_behind_the_head_is_the_end_of_the_log() -> None:
    disk = ops(6, headed=5)
    disk.rot_prepare(6)
    wal = disk.recover(solo=True)
    assert (wal.op_head, wal.head_is_certain, wal.refused) == (5, True, None)
    assert state(wal, 6) == "B: none dirty"


def test_alone_a_damaged_prepare_that_says_its_op_is_no_torn_write() -> None:
    disk = ops(5, headed=5)
    disk.append(1, headed=0)
    assert disk.log[6].body_bytes > 256
    disk.rot_prepare(6, at=sector_bytes)
    wal = disk.recover(solo=True)
    assert wal.refused == "op 6 is damaged, and there is no other replica"


def test_alone_a_torn_write_ends_the_log_and_what_was_written_with_it_goes_too() -> None:
    disk = ops(5)
    torn = disk.prepare(after(disk.log[5]), landed=lambda sector: sector == 0)
    disk.prepare(after(torn))
    wal = disk.recover(solo=True)
    assert (wal.op_head, wal.refused, wal.torn) == (5, None, 1)
    assert [state(wal, op) for op in (6, 7)] == ["K: none dirty", "L: none dirty"]


def test_alone_a_gap_below_what_was_committed_is_refused() -> None:
    disk = ops(5)
    missing = after(disk.log[5])
    disk.prepare(after(missing, commit=6))
    wal = disk.recover(solo=True)
    assert wal.refused == "op 6 was committed, and is gone"


def test_alone_a_tail_of_another_parent_is_not_part_of_the_log() -> None:
    disk = ops(6, headed=4)
    other = disk.prepare(after(disk.log[4], view=3))
    wal = disk.recover(solo=True)
    assert wal.op_head == 5
    assert at(wal, 5).header == other
    assert at(wal, 6).header is None
