"""Bytes in words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.format.frame import encode_frame
from motet.format.inspect import describe
from motet.format.journal import encode_record

SALT = 0xABCDEF

FRAMES = encode_frame(1, 7, b"hello") + encode_frame(20, 8, bytes(100))
JOURNAL = b"".join(encode_record(SALT, i, 3, b"body %d" % i) for i in range(4))


def test_frames_are_shown_one_by_one() -> None:
    summary, first, second = describe(FRAMES)
    assert summary == "frames in 153 bytes"
    assert first == "         0  frame kind 1 id 7 body of 5 bytes 'hello'"
    assert second.startswith("        29  frame kind 20 id 8 body of 100 bytes '\\x00")


def test_frames_are_shown_up_to_where_they_stop() -> None:
    assert "body cut off after 99 of 100 bytes" in describe(FRAMES[:-1])[-1]
    assert "cut off after 5 bytes of its header" in describe(FRAMES[:34])[-1]
    assert "not a frame: frame version 2 is from the future" in describe(FRAMES + b"mt\x02")[-1]
    assert "not a frame: the header is damaged" in describe(FRAMES + b"mt\x01" + bytes(30))[-1]


def test_a_damaged_body_of_a_frame_does_not_hide_the_next() -> None:
    damaged = FRAMES[:24] + b"jello" + FRAMES[29:]
    lines = describe(damaged)
    assert lines[1].endswith("body of 5 bytes, DAMAGED")
    assert "id 8" in lines[2]


def test_a_journal_is_shown_with_its_ending() -> None:
    summary, *lines = describe(JOURNAL + bytes(800))
    assert "journal 0000000000abcdef" in summary
    assert "4 good records from record 0 at byte 0; clean: record 4 at byte 192" in summary
    assert "record 2 of 0000000000abcdef version 1 kind 3 durable below 2" in lines[2]
    assert "'body 2'" in lines[2]
    assert lines[4].endswith("800 zero bytes")


def test_a_journal_is_shown_also_behind_a_bad_place() -> None:
    header_gone = JOURNAL[:48] + b"?" + JOURNAL[49:]
    summary, *lines = describe(header_gone)
    assert "damaged: record 1 at byte 48" in summary
    assert "48 unreadable bytes" in lines[1]
    assert "record 2" in lines[2]

    body_gone = JOURNAL[:88] + b"?" + JOURNAL[89:]
    _, *lines = describe(body_gone)
    assert "DAMAGED" in lines[1]
    assert any("record 2" in line for line in lines)


def test_what_is_neither_is_called_so() -> None:
    assert describe(b"") == ["neither frames nor journal records: no bytes"]
    assert describe(bytes(9)) == ["neither frames nor journal records: 9 zero bytes"]
    assert describe(b"PK\x03\x04") == [
        "neither frames nor journal records: 4 unreadable bytes 'PK\\x03\\x04'"
    ]


def test_a_long_file_is_shown_in_part() -> None:
    summary, *lines, more = describe(JOURNAL, lines_max=3)
    assert len(lines) == 3
    assert more == "and 1 more"
    assert "4 good records" in summary


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([FRAMES, JOURNAL, b"mt\x01", b"mj\x01\x03", bytes(50)]),
        ),
        max_size=5,
    ),
    st.integers(0, 2000),
)
def test_no_bytes_whatever_make_it_raise(pieces: list[bytes], bit: int) -> None:
    data = bytearray(b"".join(pieces))
    if data:
        data[bit // 8 % len(data)] ^= 1 << bit % 8
    assert describe(bytes(data))
