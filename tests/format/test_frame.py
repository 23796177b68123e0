"""Frames: what was sent comes out under every chunking, and nothing else ever does."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadFrame
from motet.format.checksum import crc32c
from motet.format.frame import (
    FRAME_BODY_BYTES_MAX,
    FRAME_HEADER_BYTES,
    Frame,
    FrameDecoder,
    FrameKind,
    encode_frame,
    encode_frames,
)
from motet.limits import frame_bytes_max

frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 2**64 - 1), st.binary(max_size=80))

THREE = [Frame(FrameKind.HELLO, 0, b"hello"), Frame(16, 2**64 - 1, b""), Frame(255, 7, bytes(9))]


def header(
    magic: bytes = b"mt", version: int = 1, body_bytes: int = 0, header_crc: int | None = None
) -> bytes:
    """A header written down field by field, as the reference describes it."""
    checked = struct.pack("<2sBBIQI", magic, version, 16, body_bytes, 5, crc32c(b""))
    return checked + struct.pack("<I", crc32c(checked) if header_crc is None else header_crc)


def decode(*chunks: bytes) -> list[Frame]:
    """All frames of a whole stream."""
    decoder = FrameDecoder()
    found = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    decoder.finish()
    return found


def decode_as_far_as_good(*chunks: bytes) -> tuple[list[Frame], BadFrame | None]:
    """What anybody gets to see of a stream, and the error that ended it."""
    decoder = FrameDecoder()
    found: list[Frame] = []
    try:
        for chunk in chunks:
            found += decoder.feed(chunk)
        decoder.finish()
    except BadFrame as error:
        return found, error
    return found, None


def single_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


# What was sent comes out


def test_a_frame_is_its_fields_and_its_body() -> None:
    checked = struct.pack("<2sBBIQI", b"mt", 1, 16, 3, 5, crc32c(b"abc"))
    assert encode_frame(16, 5, b"abc") == checked + struct.pack("<I", crc32c(checked)) + b"abc"


@given(st.lists(frames, max_size=6), st.lists(st.integers(0, 10_000), max_size=8))
def test_frames_survive_any_chunking(sent: list[Frame], places: list[int]) -> None:
    assert decode(*cut(encode_frames(sent), places)) == sent


def test_frames_survive_every_cut_in_two() -> None:
    data = encode_frames(THREE)
    for place in range(len(data) + 1):
        assert decode(data[:place], data[place:]) == THREE
    assert decode(*single_bytes(data)) == THREE


@given(st.lists(frames, max_size=6))
def test_many_are_encoded_as_each_alone(sent: list[Frame]) -> None:
    assert encode_frames(sent) == b"".join(encode_frame(f.kind, f.id, f.body) for f in sent)


def test_the_longest_frame_fits_and_one_byte_more_is_refused() -> None:
    longest = encode_frame(16, 1, bytes(FRAME_BODY_BYTES_MAX))
    assert len(longest) == frame_bytes_max
    assert len(decode(longest)[0].body) == FRAME_BODY_BYTES_MAX
    with pytest.raises(BadFrame, match="exceeds the limit of"):
        encode_frame(16, 1, bytes(FRAME_BODY_BYTES_MAX + 1))


@pytest.mark.parametrize(("kind", "id_"), [(256, 0), (-1, 0), (1, 2**64), (1, -1)])
def test_a_number_that_does_not_fit_is_refused(kind: int, id_: int) -> None:
    with pytest.raises(BadFrame, match="does not fit"):
        encode_frame(kind, id_, b"")


# Nothing else does


def test_every_flipped_bit_is_refused() -> None:
    data = encode_frames(THREE)
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        flipped = bytes(changed)
        for chunks in ([flipped], single_bytes(flipped)):
            seen, error = decode_as_far_as_good(*chunks)
            assert error is not None, f"bit {bit} went unnoticed"
            assert seen == THREE[: len(seen)], f"bit {bit} made something else"


def test_every_truncation_is_noticed() -> None:
    data = encode_frames(THREE)
    edges = [len(encode_frames(THREE[:count])) for count in range(len(THREE) + 1)]
    for length in range(len(data) + 1):
        decoder = FrameDecoder()
        whole = sum(edge <= length for edge in edges) - 1
        assert decoder.feed(data[:length]) == THREE[:whole]
        assert decoder.pending_bytes == length - edges[whole]
        if length in edges:
            decoder.finish()
        else:
            with pytest.raises(BadFrame, match="ended inside a frame"):
                decoder.finish()


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from([b"", b"m", b"mt", b"mt\x01"]))
def test_garbage_is_a_bad_frame_and_nothing_worse(chunks: list[bytes], start: bytes) -> None:
    seen, error = decode_as_far_as_good(start, *chunks)
    assert seen == []
    assert error is not None or not any([start, *chunks])


@given(st.lists(frames, max_size=3), st.binary(min_size=1, max_size=60), st.lists(st.integers(0)))
def test_good_frames_do_not_vouch_for_what_follows(
    sent: list[Frame], garbage: bytes, places: list[int]
) -> None:
    seen, error = decode_as_far_as_good(*cut(encode_frames(sent) + garbage, places))
    assert seen == sent[: len(seen)]
    assert error is not None


# Each refusal says which rule was broken


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "an HTTP request"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP answer"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP/2 client"),
        (bytes.fromhex("16030100f8010000f40303") + bytes(32), "a TLS handshake"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "an SSH greeting"),
        (bytes.fromhex("0000002d00000000") + bytes(40), "a ZooKeeper client"),
        (b"\x00", "foreign bytes"),
        (b"mx", "foreign bytes"),
    ],
)
def test_a_stranger_is_told_apart_by_its_first_bytes(data: bytes, says: str) -> None:
    with pytest.raises(BadFrame, match="foreign bytes") as refused:
        FrameDecoder().feed(data)
    assert says in refused.value.what
    decoder = FrameDecoder()
    with pytest.raises(BadFrame, match="foreign bytes"):  # at the latest with the second byte
        [decoder.feed(byte) for byte in single_bytes(data[:2])]


def test_a_version_from_the_future_says_who_has_to_be_upgraded() -> None:
    for data in (header(version=2), b"mt\x02"):
        with pytest.raises(BadFrame, match="version 2 is from the future") as refused:
            FrameDecoder().feed(data)
        assert refused.value.advice == "upgrade this side"
    with pytest.raises(BadFrame, match="never was a frame version 0"):
        FrameDecoder().feed(header(version=0))


def test_the_checksum_comes_before_the_length() -> None:
    with pytest.raises(BadFrame, match="header is damaged"):
        FrameDecoder().feed(header(body_bytes=2**32 - 1, header_crc=0))


def test_a_damaged_body_says_so_and_where() -> None:
    first, second = encode_frame(16, 1, b"good"), bytearray(encode_frame(16, 2, b"evil"))
    second[-1] ^= 1
    decoder = FrameDecoder()
    decoder.feed(first)
    with pytest.raises(BadFrame, match=f"body is damaged.* at byte {len(first)} of the stream"):
        decoder.feed(bytes(second))


@pytest.mark.parametrize("body_bytes", [2**32 - 1, FRAME_BODY_BYTES_MAX + 1])
def test_a_length_above_the_bound_is_refused_before_anything_is_kept(body_bytes: int) -> None:
    decoder = FrameDecoder()
    with pytest.raises(BadFrame, match="exceeds the limit of"):
        decoder.feed(header(body_bytes=body_bytes))
    assert decoder.pending_bytes == 0


def test_nothing_is_allocated_for_a_length_that_is_only_claimed() -> None:
    claims = [header(body_bytes=2**32 - 1), header(body_bytes=FRAME_BODY_BYTES_MAX)]
    tracemalloc.start()
    try:
        for claim in claims:
            decode_as_far_as_good(claim, bytes(100))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000


def test_a_decoder_is_dead_after_an_error() -> None:
    decoder = FrameDecoder()
    with pytest.raises(BadFrame) as first:
        decoder.feed(header(version=9))
    for _ in range(2):
        with pytest.raises(BadFrame) as again:
            decoder.feed(encode_frame(16, 1, b"good"))
        assert str(again.value) == str(first.value)
    with pytest.raises(BadFrame, match="from the future"):
        decoder.finish()


def test_a_long_body_is_put_together_from_many_pieces() -> None:
    body = bytes(range(256)) * 4096
    data = encode_frame(16, 1, body)
    decoder = FrameDecoder()
    pieces = [data[start : start + 1000] for start in range(0, len(data), 1000)]
    for count, piece in enumerate(pieces[:-1], 1):
        assert decoder.feed(piece) == []
        assert decoder.pending_bytes == 1000 * count
    assert decoder.feed(pieces[-1]) == [Frame(16, 1, body)]
    assert decoder.pending_bytes == 0


def test_the_header_is_as_long_as_promised() -> None:
    assert len(encode_frame(16, 1, b"")) == FRAME_HEADER_BYTES == 24


def test_a_number_that_was_once_given_away_is_not_given_away_again() -> None:
    assert 16 not in list(FrameKind), "peers of earlier versions take it for requests of a clock"
