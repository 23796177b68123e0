"""Reading entries back: for clients, for followers that lag, for the state machine after a start.

The newest entries are in memory. For the others the segment's marks say where to begin; from there on
records are read in order, and new marks are made on the way, so that the next reader begins nearer. Every
checksum is verified. What is not what was written makes the replica *damaged*: it leads and counts no more
until it has been repaired from a peer (``fencing.find_damage``). What the disk cannot give back at the
moment is asked for again later by whoever wants it, and is damaged if that goes on for long.
"""

from __future__ import annotations

from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, entry_bytes, read_record
from motet.core.shardlog.log import Segment
from motet.core.shardlog.meta import segment_file
from motet.core.shardlog.state import FinishedRead, Purpose, Reading
from motet.errors import BadRecord, DiskReadFailed
from motet.errors.shards import EntriesGone
from motet.format.record import RECORD_HEADER_BYTES
from motet.ids import Offset, ReadId


def begin(core: Core, reading: Reading) -> bool:
    """Begin to read; True when it is done already, because all of it is in memory."""
    log = core.state.log
    assert log.base.offset <= reading.after < reading.last <= log.head.offset
    found = log.in_memory(reading.after, reading.last, reading.bytes_max)
    if found is not None:
        reading.entries = found
        return True
    _go_to(core, reading, log.segment_of(Offset(reading.after + 1)), Offset(reading.after + 1))
    return False


def _go_to(core: Core, reading: Reading, segment: Segment, offset: Offset) -> None:
    reading.at, reading.place = segment.nearest(offset)
    reading.segment = segment.number
    reading.read_bytes = _wanted_bytes(core, reading)
    _read(core, reading)


def _wanted_bytes(core: Core, reading: Reading) -> int:
    """What the next read should bring: not much more than is wanted, however far away the mark is."""
    wanted = max(reading.bytes_max - reading.size_bytes, 0) + core.config.index_step_bytes
    return min(core.config.read_bytes, wanted)


def _read(core: Core, reading: Reading) -> None:
    file = segment_file(core.shard, reading.segment)
    read = core.read(file, reading.place, reading.read_bytes)
    core.state.readings[read] = reading


def go_on(core: Core, read: ReadId, data: bytes) -> Reading | None:
    """Take in what was read; the reading if that was the end of it. ``BadRecord`` when it is damaged."""
    reading = core.state.readings.pop(read, None)
    if reading is None:
        return None  # nobody wants it any more
    log = core.state.log
    core.state.unreadable.pop((reading.segment, reading.place, reading.read_bytes), None)
    segment = log.numbered(reading.segment)
    if segment is None:
        return reading  # it has been trimmed or cut meanwhile: there is no more
    last = min(log.last_of(segment), reading.last)
    asked_bytes = reading.read_bytes
    used = _take(core, reading, segment, last, data)
    if reading.size_bytes >= reading.bytes_max or reading.at > reading.last:
        return reading
    if reading.at > last:
        following = log.segment_of(reading.at)
        reading.read_bytes = _wanted_bytes(core, reading)
        reading.segment, reading.place = following.number, 0
    elif used == 0 and len(data) < asked_bytes:
        raise BadRecord(f"segment {segment.number} ends before entry {reading.at}")
    _read(core, reading)
    return None


def _take(core: Core, reading: Reading, segment: Segment, last: Offset, data: bytes) -> int:
    """The entries in these bytes; how many bytes that were."""
    used, step_bytes = 0, core.config.index_step_bytes
    while reading.at <= last and reading.size_bytes < reading.bytes_max:
        entry, size_bytes = read_record(data, used, segment.salt, reading.at)
        if entry is None:
            # More than one record is read at once, so that many small ones are quick.
            reading.read_bytes = max(_wanted_bytes(core, reading), size_bytes + RECORD_HEADER_BYTES)
            break
        _check(core, entry)
        segment.mark(reading.at, reading.place, step_bytes)
        if reading.at > reading.after:
            reading.entries.append(entry)
            reading.size_bytes += entry_bytes(entry)
        used += size_bytes
        reading.place += size_bytes
        reading.at = Offset(reading.at + 1)
    return used


def _check(core: Core, entry: Entry) -> None:
    if core.state.log.runs.id_at(entry.id.offset) != entry.id:
        raise BadRecord(f"entry {entry.id.offset} is of epoch {entry.id.epoch}")


def is_unreadable(core: Core, failed: Reading) -> bool:
    """A read has failed; whether that has gone on for so long that the segment is damaged."""
    counts, key = core.state.unreadable, (failed.segment, failed.place, failed.read_bytes)
    counts[key] = counts.get(key, 0) + 1
    return counts[key] >= core.config.unreadable_max


def finish(core: Core, done: Reading, error: tuple[str, str] | None = None) -> None:
    """A reading for the data node has come to its end. Nothing found is an error if there was something."""
    if error is None and not done.entries and done.after < done.last:
        error = EntriesGone.code, f"shard {core.shard} is kept from entry {core.state.log.first} on"
    entries = () if error else tuple(done.entries)
    core.state.finished.append(FinishedRead(core.shard, done.number, entries, error))


def drop_all(core: Core, why: str) -> None:
    """What is being read is of no use to anybody any more."""
    state = core.state
    dropped, state.readings = state.readings, {}
    state.unreadable = {}
    for each in dropped.values():
        if each.purpose is Purpose.CLIENT:
            finish(core, each, (DiskReadFailed.code, why))
    for cursor in state.cursors.values():
        cursor.is_reading = False
