"""Batches: what goes in comes out, within bounds, and nothing else is taken for one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motet.errors import BadFrame
from motet.format.frame import (
    FRAME_BODY_BYTES_MAX,
    FRAME_HEADER_BYTES,
    Frame,
    FrameDecoder,
    FrameKind,
    decode_batch,
    encode_batches,
    encode_frame,
)
from motet.limits import KIB, batch_bytes_max
from motet.real.connection import unpack

bodies = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([1 * KIB, 40 * KIB, batch_bytes_max, batch_bytes_max + 1]).map(bytes),
)
frames = st.builds(Frame, st.integers(16, 255), st.integers(0, 2**64 - 1), bodies)
encode = msgspec.msgpack.encode


def size_bytes(sent: list[Frame]) -> int:
    return sum(FRAME_HEADER_BYTES + len(frame.body) for frame in sent)


def joined(sent: list[Frame]) -> bytes:
    return b"".join(encode_batches(sent, size_bytes(sent)))


def travel(sent: list[Frame]) -> list[Frame]:
    return unpack(FrameDecoder().feed(joined(sent)))


@given(st.lists(frames, min_size=1, max_size=30))
def test_what_goes_in_comes_out_in_order(sent: list[Frame]) -> None:
    assert travel(sent) == sent


@given(st.lists(frames, min_size=1, max_size=30))
def test_a_batch_is_never_larger_than_allowed(sent: list[Frame]) -> None:
    for outer in FrameDecoder().feed(joined(sent)):
        if outer.kind == FrameKind.BATCH:
            inside = decode_batch(outer.body)
            assert len(inside) > 1
            assert size_bytes(inside) <= batch_bytes_max


def test_small_frames_share_one_batch_and_a_single_one_travels_as_itself() -> None:
    small = [Frame(16, number, b"x") for number in range(100)]
    (outer,) = FrameDecoder().feed(joined(small))
    assert outer.kind == FrameKind.BATCH
    assert joined(small[:1]) == encode_frame(16, 0, b"x")


def test_very_many_empty_frames() -> None:
    empty = [Frame(16, number, b"") for number in range(100_000)]
    assert travel(empty) == empty


def test_the_largest_frame_there_is() -> None:
    sent = [Frame(16, 1, b"a"), Frame(16, 2, bytes(FRAME_BODY_BYTES_MAX)), Frame(16, 3, b"c")]
    assert travel(sent) == sent


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xdd\xff\xff\xff\xff")  # a list of four thousand million frames
@example(encode([{"kind": 16, "id": 1}]))
@example(encode({"kind": 16, "id": 1, "body": b""}))
@example(encode([{"kind": 16, "id": 1, "body": "text"}]))
@example(encode([Frame(16, 1, b"")]) + b"more")
def test_other_bytes_are_refused(data: bytes) -> None:
    try:
        found = decode_batch(data)
    except BadFrame:
        return
    assert found == [], "no random bytes make a frame"


def test_a_batch_that_nobody_packs() -> None:
    too_large = encode([Frame(16, 0, b"")] * batch_bytes_max)
    with pytest.raises(BadFrame, match="exceeds the limit of"):
        decode_batch(too_large)
    too_deep = b"\x91\x84" + encode("kind") + b"\x10" + encode("odd") + b"\x91" * 100_000
    with pytest.raises(BadFrame, match="not a batch"):
        decode_batch(too_deep)


def test_the_most_that_fits_into_a_batch_is_taken() -> None:
    smallest = [Frame(255, 2**64 - 1, b"")] * (batch_bytes_max // FRAME_HEADER_BYTES)
    (outer,) = FrameDecoder().feed(joined(smallest))
    assert decode_batch(outer.body) == smallest


@pytest.mark.parametrize("frame", [[16, -1, b""], [-1, 0, b""], [256, 0, b""], [16, 2**63, "text"]])
def test_a_kind_or_id_out_of_range_is_refused(frame: list[object]) -> None:
    with pytest.raises(BadFrame, match="not a batch"):
        decode_batch(msgspec.msgpack.encode([frame]))


@pytest.mark.parametrize("odd", [0, 2**63, 2**64 - 1])
def test_an_id_goes_back_as_it_came(odd: int) -> None:
    (came,) = decode_batch(encode([Frame(16, odd, b"question")]))
    assert travel([Frame(16, came.id, b"answer")]) == [Frame(16, odd, b"answer")]


@pytest.mark.parametrize("kind", [0, 1, 3, 15])
def test_what_is_about_the_connection_does_not_follow_the_greeting(kind: int) -> None:
    with pytest.raises(BadFrame, match=f"kind {kind}"):
        unpack([Frame(kind, 0, b"")])
