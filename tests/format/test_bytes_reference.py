"""The reference of the bytes says what the code does."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from motet.errors import BadFrame
from motet.format import frame, journal, part_manifest, record
from motet.format.checksum import crc32c
from motet.limits import frame_bytes_max, record_bytes_max

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "bytes.md").read_text()

LAYOUTS = {
    "frame": (frame.FRAME_LAYOUT, frame.FRAME_HEADER_BYTES, frame.FRAME_MAGIC, frame_bytes_max),
    "record": (
        *(record.RECORD_LAYOUT, record.RECORD_HEADER_BYTES),
        *(record.RECORD_MAGIC, record_bytes_max),
    ),
}


def documented_rows(name: str) -> list[list[str]]:
    """The cells of the table behind ``<!-- layout: name -->``."""
    table = PAGE.split(f"<!-- layout: {name} -->\n")[1].split("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_field_is_documented_where_it_is(name: str) -> None:
    layout, header_bytes, magic, bytes_max = LAYOUTS[name]
    expected, offset = [], 0
    for field, code in layout:
        size = struct.calcsize("<" + code)
        expected.append([str(offset), str(size), f"`{field}`"])
        offset += size
    rows = documented_rows(name)
    assert [row[:3] for row in rows] == expected
    assert rows[0][3] == f"`{magic.decode()}`"
    assert offset == header_bytes
    assert f"header of {header_bytes} bytes" in PAGE
    assert f"at most {bytes_max} bytes" in PAGE
    assert f"the {header_bytes - 4} bytes before it" in rows[-1][3]


def test_the_versions_are_documented() -> None:
    assert documented_rows("frame")[1][3] == str(frame.FRAME_VERSION)
    assert documented_rows("record")[1][3] == str(record.RECORD_VERSION)


def test_every_field_of_a_manifest_is_documented() -> None:
    table = PAGE.split("<!-- fields: manifest -->\n")[1].split("\n\n")[0]
    cells = [line.strip("|").split("|")[0] for line in table.splitlines()[2:]]
    named = [name.strip(" `") for cell in cells for name in cell.split(",")]
    assert sorted(named) == sorted(part_manifest.PartManifest.__struct_fields__)
    assert f"journal record of kind {part_manifest.PART_MANIFEST_KIND} " in PAGE


def test_the_checksum_is_documented() -> None:
    assert f"of `123456789` it is `{crc32c(b'123456789'):08x}`" in PAGE


def test_every_ending_is_documented() -> None:
    assert [ending for ending in journal.Ending if f"| `{ending}` |" not in PAGE] == []


def test_every_reason_to_stop_is_documented() -> None:
    assert [stop.value for stop in journal._Stop if f"| `{stop.value}` |" not in PAGE] == []


def test_the_sentences_about_frames_are_those_of_the_code() -> None:
    whole = frame.encode_frame(16, 1, bytes(256 - frame.FRAME_HEADER_BYTES))
    for data in (b"GET / HTTP/1.1\r\n", b"mt\x02"):
        with pytest.raises(BadFrame) as refused:
            frame.FrameDecoder().feed(data)
        assert f"`{refused.value.what.partition(', at byte')[0]}`" in PAGE
    decoder = frame.FrameDecoder()
    decoder.feed(whole[:100])
    with pytest.raises(BadFrame) as refused:
        decoder.finish()
    assert f"`{refused.value.what.partition(', at byte')[0]}`" in PAGE
