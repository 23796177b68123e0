"""Bytes in words: what a file of journal records, a part's file, or a stream of frames holds.

For people with a file they do not trust: it shows all that can be read, in a journal also after a bad
place, and never raises, whatever it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from motet.format.checksum import crc32c
from motet.format.frame import FRAME_HEADER, FRAME_HEADER_BYTES, FRAME_MAGIC, header_fault
from motet.format.journal import scan
from motet.format.part_manifest import describe_part_manifest, is_part_manifest
from motet.format.record import RECORD_HEADER_BYTES, RecordHeader, find_header, parse_body

_BODY_SHOWN_BYTES = 24
_PARQUET_MAGIC = b"PAR1"
_PARQUET_BYTES_MIN = 12


def describe(data: bytes, lines_max: int = 1000) -> list[str]:
    """A line of summary, then one for each record, frame or gap, in the order of the file."""
    if data.startswith(_PARQUET_MAGIC):
        return _part_file_lines(data)
    if is_part_manifest(data):
        return describe_part_manifest(data)
    if data.startswith(FRAME_MAGIC):
        lines = _frame_lines(data)
        summary = f"frames in {len(data)} bytes"
    elif (first := find_header(data, 0)) is not None:
        lines = _record_lines(data)
        summary = _journal_summary(data, *first)
    else:
        return [f"neither frames nor journal records: {_gap(data)}"]
    shown = list(islice(lines, lines_max))
    left_out = sum(1 for _ in lines)
    return [summary, *shown, *([f"and {left_out} more"] if left_out else [])]


def _part_file_lines(data: bytes) -> list[str]:
    """Parquet says how long its footer is in its last bytes; the rest is for those who read Parquet."""
    lines = [f"part file of {len(data)} bytes"]
    if len(data) < _PARQUET_BYTES_MIN or not data.endswith(_PARQUET_MAGIC):
        lines.append("Parquet, cut off: it does not end as such a file does")
    else:
        lines.append(f"Parquet, footer of {int.from_bytes(data[-8:-4], 'little')} bytes")
    return lines


def _frame_lines(data: bytes) -> Iterable[str]:
    position = 0
    while position < len(data):
        header = data[position : position + FRAME_HEADER_BYTES]
        fault = header_fault(header)
        if fault is not None:
            yield _at(position, f"not a frame: {fault.what}")
            return
        if len(header) < FRAME_HEADER_BYTES:
            yield _at(position, f"frame cut off after {len(header)} bytes of its header")
            return
        _, _, kind, body_bytes, id_, body_crc, _ = FRAME_HEADER.unpack(header)
        position += FRAME_HEADER_BYTES
        body = data[position : position + body_bytes]
        state = _body_state(body, body_bytes, is_good=crc32c(body) == body_crc)
        yield _at(position - FRAME_HEADER_BYTES, f"frame kind {kind} id {id_} {state}")
        position += body_bytes


def _record_lines(data: bytes) -> Iterable[str]:
    position = 0
    while (found := find_header(data, position)) is not None:
        start, header = found
        if start > position:
            yield _at(position, _gap(data[position:start]))
        is_good = parse_body(data, start, header) is not None
        yield _at(start, _record_line(data, start, header, is_good=is_good))
        # Behind a damaged body look for the next header everywhere: its place may be in doubt too.
        position = start + (header.record_bytes if is_good else RECORD_HEADER_BYTES)
    if position < len(data):
        yield _at(position, _gap(data[position:]))


def _record_line(data: bytes, start: int, header: RecordHeader, *, is_good: bool) -> str:
    body_start = start + RECORD_HEADER_BYTES
    body = data[body_start : body_start + header.body_bytes]
    return (
        f"record {header.sequence} of {header.salt:016x} version {header.version} "
        f"kind {header.kind} durable below {header.durable_below} "
        f"{_body_state(body, header.body_bytes, is_good=is_good)}"
    )


def _journal_summary(data: bytes, start: int, first: RecordHeader) -> str:
    found = scan(data, first.salt, first.sequence, start)
    return (
        f"journal {first.salt:016x} in {len(data)} bytes: {len(found.records)} good records "
        f"from record {first.sequence} at byte {start}; {found.ending}: {found.what}"
    )


def _body_state(body: bytes, body_bytes: int, *, is_good: bool) -> str:
    if len(body) < body_bytes:
        return f"body cut off after {len(body)} of {body_bytes} bytes"
    if not is_good:
        return f"body of {body_bytes} bytes, DAMAGED"
    return f"body of {body_bytes} bytes {_preview(body)}"


def _gap(data: bytes) -> str:
    if not data:
        return "no bytes"
    if not data.strip(b"\0"):
        return f"{len(data)} zero bytes"
    return f"{len(data)} unreadable bytes {_preview(data)}"


def _preview(data: bytes) -> str:
    return repr(data[:_BODY_SHOWN_BYTES])[1:] + ("…" if len(data) > _BODY_SHOWN_BYTES else "")


def _at(position: int, text: str) -> str:
    return f"{position:>10}  {text}"
