"""Superblocks: at every moment of a change either the old or the new one is believed."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.vsr.block_ref import NO_BLOCK, BlockRef
from motet.core.vsr.header import NO_CHECKSUM, checksum, root_header
from motet.core.vsr.superblock import (
    Checkpoint,
    Superblock,
    Why,
    check_identity,
    copies,
    copy_bytes,
    copy_offset,
    encode_copy,
    following,
    is_monotonic,
    read_superblock,
    stale_copies,
    superblock_bytes,
    superblock_checksum,
    write_order,
)
from motet.errors import BadSuperblock
from motet.ids import Address, ClusterId, Op, ReplicaIndex, View

ROOT = root_header(ClusterId(7))
FIRST = Superblock(
    format_version=1,
    cluster=ClusterId(7),
    replica=ReplicaIndex(1),
    replica_count=3,
    members=(Address("r0"), Address("r1"), Address("r2")),
    epoch=0,
    sequence=1,
    parent=NO_CHECKSUM,
    view=View(0),
    log_view=View(0),
    commit_max=Op(0),
    view_headers=(ROOT,),
    checkpoint=Checkpoint(Op(0), ROOT, NO_BLOCK, NO_CHECKSUM, NO_CHECKSUM),
    syncing=False,
)
SECTOR_BYTES = 512


def view(superblock: Superblock, to: int) -> Superblock:
    return following(superblock, msgspec.structs.replace(superblock, view=View(to)))


def file_of(*superblocks: Superblock | None) -> bytes:
    """One copy each; None is one that cannot be read."""
    written = [encode_copy(one) if one else bytes(copy_bytes) for one in superblocks]
    return b"".join(written)


def why(*superblocks: Superblock | None) -> Why:
    with pytest.raises(BadSuperblock) as caught:
        read_superblock(file_of(*superblocks))
    return Why(caught.value.what)


def test_what_is_written_is_read_back() -> None:
    assert len(encode_copy(FIRST)) == copy_bytes
    assert [copy_offset(number) for number in range(copies)] == [0, 16384, 32768, 49152]
    assert superblock_bytes == 65536
    assert read_superblock(file_of(*[FIRST] * 4)) == FIRST


def test_the_largest_superblock_has_room() -> None:
    header = msgspec.structs.replace(ROOT, timestamp=1 << 62, client=(1 << 63) - 1, op=1 << 62)
    large = msgspec.structs.replace(
        FIRST,
        members=tuple(Address("r" * 200 + str(index)) for index in range(6)),
        view_headers=(header,) * 48,
    )
    assert read_superblock(file_of(*[large] * 4)) == large


def test_two_equal_copies_are_enough() -> None:
    second = view(FIRST, 1)
    assert read_superblock(file_of(None, second, None, second)) == second
    assert read_superblock(file_of(second, None, FIRST, FIRST)) == FIRST
    assert read_superblock(file_of(FIRST, FIRST, second, second)) == second


def test_a_file_that_cannot_be_believed_says_why() -> None:
    second = view(FIRST, 1)
    third = view(second, 2)
    other = view(FIRST, 5)
    fallen = msgspec.structs.replace(
        second, sequence=3, parent=superblock_checksum(second), view=View(0)
    )
    assert why(None, None, None, None) is Why.NOT_FOUND
    assert why(FIRST, None, None, None) is Why.QUORUM_LOST
    assert why(FIRST, second, third, None) is Why.QUORUM_LOST
    assert why(second, second, other, None) is Why.FORK
    assert why(third, third, other, None) is Why.PARENT_NOT_CONNECTED
    assert why(FIRST, FIRST, third, None) is Why.PARENT_SKIPPED
    assert why(fallen, fallen, second, None) is Why.NOT_MONOTONIC


def test_an_error_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(BadSuperblock(Why.FORK)))
    assert isinstance(error, BadSuperblock)
    assert error.what is Why.FORK
    assert str(error).startswith("BAD_SUPERBLOCK there are two")


def test_an_older_copy_that_a_write_never_reached_is_outvoted() -> None:
    third = view(view(FIRST, 1), 2)
    assert read_superblock(file_of(third, third, third, FIRST)) == third


@given(st.integers(0, copies - 1), st.data())
def test_a_rotten_copy_is_outvoted(number: int, data: st.DataObject) -> None:
    file = bytearray(file_of(*[FIRST] * 4))
    for at in data.draw(st.lists(st.integers(0, copy_bytes - 1), max_size=5)):
        file[copy_offset(number) + at] ^= 1 << data.draw(st.integers(0, 7))
    assert read_superblock(bytes(file)) == FIRST


@given(st.binary(max_size=200))
def test_rubbish_is_not_found(data: bytes) -> None:
    with pytest.raises(BadSuperblock):
        read_superblock(data * 400)


def write_torn(file: bytearray, number: int, superblock: Superblock, data: st.DataObject) -> None:
    """Write those sectors of a copy that land."""
    written = encode_copy(superblock)
    # All but the first few sectors are zeros before and after.
    landed = data.draw(st.lists(st.booleans(), min_size=5, max_size=5))
    for sector, has_landed in enumerate(landed):
        if has_landed:
            at = sector * SECTOR_BYTES
            start = copy_offset(number) + at
            file[start : start + SECTOR_BYTES] = written[at : at + SECTOR_BYTES]


def write_until_crash(
    file: bytearray, superblock: Superblock, numbers: tuple[int, ...], data: st.DataObject
) -> bool:
    """Write copies in their order; False if the power went in the middle."""
    for pair in write_order:
        mine = [number for number in pair if number in numbers]
        if data.draw(st.booleans(), label="power cut"):
            for number in mine:
                write_torn(file, number, superblock, data)
            return False
        for number in mine:
            start = copy_offset(number)
            file[start : start + copy_bytes] = encode_copy(superblock)
    return True


@given(st.data())
def test_no_series_of_crashes_loses_a_superblock(data: st.DataObject) -> None:
    file = bytearray(file_of(*[FIRST] * 4))
    durable = FIRST
    for change in range(1, data.draw(st.integers(1, 8)) + 1):
        found = read_superblock(bytes(file))
        assert found.sequence >= durable.sequence
        stale = stale_copies(bytes(file), found)
        if not write_until_crash(file, found, stale, data):
            # A restart that found it may have acted on it.
            assert read_superblock(bytes(file)) == found
            durable = found
            continue
        headers = (ROOT,) * data.draw(st.integers(1, 6))
        wanted = msgspec.structs.replace(found, commit_max=Op(change), view_headers=headers)
        new = following(found, wanted)
        is_written = write_until_crash(file, new, tuple(range(copies)), data)
        read = read_superblock(bytes(file))
        assert read == new if is_written else read in (found, new)
        durable = new if is_written else found


def test_copies_to_write_again() -> None:
    second = view(FIRST, 1)
    assert stale_copies(file_of(second, second, FIRST, None), second) == (2, 3)
    assert stale_copies(file_of(FIRST, second, FIRST, FIRST), FIRST) == (1,)
    assert stale_copies(file_of(*[FIRST] * 4), FIRST) == ()


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"cluster": ClusterId(8)}, "another cluster, 8 and not 7"),
        ({"replica": ReplicaIndex(2)}, "another replica, 2 and not 1"),
        ({"format_version": 2}, "format 2"),
    ],
)
def test_a_file_of_somebody_else_is_recognised(changed: dict[str, int], word: str) -> None:
    found = msgspec.structs.replace(FIRST, **changed)
    sentence = check_identity(found, FIRST.cluster, FIRST.replica, 1)
    assert sentence is not None
    assert word in sentence
    assert check_identity(FIRST, FIRST.cluster, FIRST.replica, 1) is None


def test_promises_never_fall() -> None:
    base = msgspec.structs.replace(FIRST, view=View(3), log_view=View(2), commit_max=Op(9), epoch=1)
    assert is_monotonic(base, base)
    for name, lower in (("view", 2), ("log_view", 1), ("commit_max", 8), ("epoch", 0)):
        lowered = msgspec.structs.replace(base, **{name: lower})
        assert not is_monotonic(base, lowered)
        assert is_monotonic(lowered, base)
    assert not is_monotonic(base, msgspec.structs.replace(base, replica=ReplicaIndex(2)))
    assert not is_monotonic(base, msgspec.structs.replace(base, members=(Address("x"),)))


def test_a_checkpoint_is_never_replaced_by_another_of_its_op() -> None:
    other = msgspec.structs.replace(FIRST.checkpoint, root=BlockRef(5, checksum(b"x")))
    assert other.id != FIRST.checkpoint.id
    assert not is_monotonic(FIRST, msgspec.structs.replace(FIRST, checkpoint=other))
    later = msgspec.structs.replace(other, op=Op(8), parent_id=FIRST.checkpoint.id)
    newer = following(FIRST, msgspec.structs.replace(FIRST, checkpoint=later))
    assert newer.sequence == 2
    assert newer.parent == superblock_checksum(FIRST)
    assert not is_monotonic(newer, FIRST)


def test_a_reader_passes_over_fields_it_does_not_know() -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(FIRST))
    body = msgspec.msgpack.encode([2, *fields[1:], "new"])
    covered = len(body).to_bytes(4, "little") + body
    copy = (checksum(covered) + covered).ljust(copy_bytes, b"\0")
    read = read_superblock(copy * 4)
    assert read.format_version == 2
    assert check_identity(read, FIRST.cluster, FIRST.replica, 1) is not None
