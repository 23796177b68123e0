"""Batches: what goes in comes out, within bounds, and nothing else is taken for one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motet.errors import BadFrame
from motet.format.frame import FRAME_BODY_BYTES_MAX, Frame, FrameDecoder, encode_frame
from motet.limits import KIB
from motet.real.batch import BATCH_KIND, batch_bytes_max, decode_batch, encode_batches
from motet.real.connection import unpack

bodies = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([1 * KIB, 40 * KIB, batch_bytes_max, batch_bytes_max + 1]).map(bytes),
)
frames = st.builds(Frame, st.integers(16, 255), st.integers(0, 2**64 - 1), bodies)


def travel(data: bytes) -> list[Frame]:
    return unpack(FrameDecoder().feed(data))


@given(st.lists(frames, min_size=1, max_size=30))
def test_what_goes_in_comes_out_in_order(sent: list[Frame]) -> None:
    assert travel(encode_batches(sent)) == sent


@given(st.lists(frames, min_size=1, max_size=30))
def test_a_batch_is_never_larger_than_allowed(sent: list[Frame]) -> None:
    for outer in FrameDecoder().feed(encode_batches(sent)):
        if outer.kind == BATCH_KIND:
            assert len(outer.body) <= batch_bytes_max + 4
            assert len(decode_batch(outer.body)) > 1


def test_small_frames_share_one_batch_and_a_single_one_travels_as_itself() -> None:
    small = [Frame(16, number, b"x") for number in range(100)]
    (outer,) = FrameDecoder().feed(encode_batches(small))
    assert outer.kind == BATCH_KIND
    assert encode_batches(small[:1]) == encode_frame(16, 0, b"x")


def test_very_many_empty_frames() -> None:
    empty = [Frame(16, number, b"") for number in range(100_000)]
    assert travel(encode_batches(empty)) == empty


def test_the_largest_frame_there_is() -> None:
    sent = [Frame(16, 1, b"a"), Frame(16, 2, bytes(FRAME_BODY_BYTES_MAX)), Frame(16, 3, b"c")]
    assert travel(encode_batches(sent)) == sent


@given(st.binary(max_size=200))
@example(b"")
@example(struct.pack("<I", 2**32 - 1))
@example(struct.pack("<IQIB", 1, 0, 2**32 - 1, 16))
def test_other_bytes_are_refused_or_are_exactly_a_batch(data: bytes) -> None:
    try:
        found = decode_batch(data)
    except BadFrame:
        return
    table = [frame.id for frame in found], [len(frame.body) for frame in found]
    count = len(found)
    rebuilt = struct.pack(
        f"<I{count}Q{count}I{count}B", count, *table[0], *table[1], *(one.kind for one in found)
    )
    assert rebuilt + b"".join(one.body for one in found) == data


@pytest.mark.parametrize("kind", [0, 1, BATCH_KIND, 15])
def test_what_is_about_the_connection_does_not_hide_in_a_batch(kind: int) -> None:
    with pytest.raises(BadFrame, match=f"kind {kind}"):
        decode_batch(struct.pack("<IQIB", 1, 0, 0, kind))


@pytest.mark.parametrize("kind", [0, 1, 3, 15])
def test_what_is_about_the_connection_does_not_follow_the_greeting(kind: int) -> None:
    with pytest.raises(BadFrame, match=f"kind {kind}"):
        unpack([Frame(kind, 0, b"")])
