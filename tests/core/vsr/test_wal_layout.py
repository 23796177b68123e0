"""The log on disk: a write that was cut short is told from damage, and neither from the truth."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import (
    OPERATION_MIN,
    RESERVED,
    Header,
    checksum,
    decode_header,
    encode_header,
    header_bytes,
    reserved_header,
    root_header,
    sealed,
)
from motet.core.vsr.sectors import seal, sector_bytes, sector_data_bytes
from motet.core.vsr.wal_layout import (
    SlotKind,
    SlotRead,
    WalLayout,
    encode_prepare,
    format_wal,
    prepare_bytes,
    read_prepare,
)
from motet.ids import Address, ClusterId, Op, View

CLUSTER = ClusterId(7)
CONFIG = VsrConfig(CLUSTER, (Address("r0"),), slots=32, checkpoint_ops=8, body_bytes_max=4_000)
LAYOUT = WalLayout.of(CONFIG)
BODIES = st.binary(max_size=64).flatmap(
    lambda piece: st.integers(0, 60).map(lambda times: piece * times)
)


def prepare(op: int, body: bytes, view: int = 1) -> Header:
    return sealed(
        msgspec.structs.replace(
            root_header(CLUSTER),
            view=View(view),
            op=Op(op),
            operation=OPERATION_MIN,
            body_checksum=checksum(body),
            body_bytes=len(body),
        )
    )


def in_slot(written: bytes) -> bytes:
    return written.ljust(LAYOUT.slot_bytes, b"\0")


def test_nothing_overlaps_and_everything_is_aligned() -> None:
    assert LAYOUT.prepares_offset >= LAYOUT.headers_bytes == 32 * header_bytes
    assert LAYOUT.prepares_offset % 4096 == LAYOUT.slot_bytes % 4096 == 0
    assert LAYOUT.slot_bytes >= prepare_bytes(CONFIG.body_bytes_max)
    assert LAYOUT.header_offset(31) + header_bytes == LAYOUT.headers_bytes
    assert LAYOUT.prepare_offset(31) + LAYOUT.slot_bytes == LAYOUT.size_bytes
    assert LAYOUT.slot_of(Op(33)) == 1


@given(BODIES)
def test_a_prepare_is_read_back(body: bytes) -> None:
    header = prepare(5, body)
    written = encode_prepare(header, body)
    assert len(written) == prepare_bytes(len(body))
    assert read_prepare(written) == SlotRead(SlotKind.VALID, header, body)
    assert read_prepare(in_slot(written)) == SlotRead(SlotKind.VALID, header, body)


def test_a_body_may_fill_its_last_sector() -> None:
    for more in (-1, 0, 1):
        body = b"b" * (2 * sector_data_bytes - header_bytes + more)
        header = prepare(5, body)
        assert read_prepare(encode_prepare(header, body)) == SlotRead(SlotKind.VALID, header, body)


def test_a_short_read_is_damage() -> None:
    written = encode_prepare(prepare(5, b"b" * 2_000), b"b" * 2_000)
    assert read_prepare(written[:-1]).kind is SlotKind.CORRUPT
    assert read_prepare(written[:-sector_bytes]).kind is SlotKind.CORRUPT
    assert read_prepare(b"").kind is SlotKind.CORRUPT


def test_a_body_that_does_not_belong_to_its_header_is_damage() -> None:
    header = prepare(5, b"right")
    written = seal(encode_header(header) + b"wrong", header.checksum[:12])
    assert read_prepare(written) == SlotRead(SlotKind.CORRUPT, claimed_op=Op(5))
    foreign = seal(encode_header(header) + b"right", b"another-gen.")
    assert read_prepare(foreign).kind is SlotKind.CORRUPT
    nonsense = seal(b"no header at all", header.checksum[:12])
    assert read_prepare(nonsense).kind is SlotKind.CORRUPT


def old_contents(body: bytes) -> list[bytes]:
    """What a write may come over."""
    longer = body + b"older" * 300
    return [
        in_slot(b""),
        in_slot(encode_prepare(reserved_header(CLUSTER, 5), b"")),
        in_slot(encode_prepare(prepare(5, body[:100]), body[:100])),
        in_slot(encode_prepare(prepare(5, longer), longer)),
        in_slot(encode_prepare(prepare(37, longer, view=2), longer)),
    ]


@given(st.data(), BODIES)
def test_a_mixture_of_two_writes_is_never_valid(data: st.DataObject, body: bytes) -> None:
    old = data.draw(st.sampled_from(old_contents(body)))
    header = prepare(37, body)
    new = encode_prepare(header, body)
    count = len(new) // sector_bytes
    landed = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    mixed = bytearray(old)
    for number, has_landed in enumerate(landed):
        if has_landed:
            at = slice(number * sector_bytes, (number + 1) * sector_bytes)
            mixed[at] = new[at]
    read = read_prepare(bytes(mixed))
    assert read.kind is not SlotKind.CORRUPT  # nothing is damaged
    if all(landed):
        assert read == SlotRead(SlotKind.VALID, header, body)
    elif read.kind is not SlotKind.TORN:
        assert not landed[0]
        assert read == read_prepare(old)


@given(st.data(), BODIES)
def test_rot_is_never_taken_for_a_torn_write(data: st.DataObject, body: bytes) -> None:
    header = prepare(37, body)
    old = data.draw(st.sampled_from(old_contents(body)))
    new = encode_prepare(header, body)
    slot = new + old[len(new) :]
    at = data.draw(st.integers(0, len(slot) - 1))
    flipped = data.draw(st.integers(1, 255))
    rotten = slot[:at] + bytes([slot[at] ^ flipped]) + slot[at + 1 :]
    read = read_prepare(rotten)
    if at < len(new):
        assert read.kind is SlotKind.CORRUPT
    else:
        assert read == SlotRead(SlotKind.VALID, header, body)


@given(st.data(), BODIES)
def test_rubbish_in_a_sector_is_damage(data: st.DataObject, body: bytes) -> None:
    new = encode_prepare(prepare(37, body), body)
    start = data.draw(st.integers(0, len(new) // sector_bytes - 1)) * sector_bytes
    rubbish = data.draw(st.binary(min_size=1, max_size=8)) * sector_bytes
    if rubbish[:sector_bytes] == bytes(sector_bytes):
        return  # a sector of zeros is one that never came
    rotten = new[:start] + rubbish[:sector_bytes] + new[start + sector_bytes :]
    assert read_prepare(rotten).kind is SlotKind.CORRUPT


def test_a_new_log_has_the_root_and_nothing_else() -> None:
    file = bytearray()
    for offset, data in format_wal(CLUSTER, LAYOUT):
        file.extend(bytes(max(0, offset + len(data) - len(file))))
        file[offset : offset + len(data)] = data
    assert len(file) == LAYOUT.size_bytes
    for slot in range(LAYOUT.slots):
        header_at, prepare_at = LAYOUT.header_offset(slot), LAYOUT.prepare_offset(slot)
        header = decode_header(bytes(file[header_at : header_at + header_bytes]))
        read = read_prepare(bytes(file[prepare_at : prepare_at + LAYOUT.slot_bytes]))
        assert header is not None
        assert read.header == header
        assert read.kind is (SlotKind.RESERVED if slot else SlotKind.VALID)
        assert header == (reserved_header(CLUSTER, slot) if slot else root_header(CLUSTER))
        assert (header.operation == RESERVED) == bool(slot)
