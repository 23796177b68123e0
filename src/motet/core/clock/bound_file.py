"""The durable bound of a clock as bytes: a magic with its version, the packed clock, and a checksum.

The first bound comes with its file, whole. Who needs many writes the next ones over it: they lie within one
sector, which a disk writes whole or not at all, and a sync is all it takes, where a new file would have to be
named as well, ten times a second. So the file holds one bound or the next. Anything else in it is damage, and
damage is never taken for a clock that has not ticked yet: that would hand out values a second time. Only a
file that is not there means so.
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Replace, Write
from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.ids import FileName, WriteId

MAGIC = b"MOTCLK\x00\x01"
PACKED_BYTES = 8
CHECKSUM_BYTES = 4
BOUND_FILE_BYTES = len(MAGIC) + PACKED_BYTES + CHECKSUM_BYTES


def bound_change(write: WriteId, file: FileName, durable: Clock, bound: Clock) -> Replace | Write:
    """What makes a bound durable, where this one is already; zero is none."""
    data = encode_bound(bound)
    return Replace(write, file, data) if durable == ZERO else Write(write, file, 0, data)


def encode_bound(bound: Clock) -> bytes:
    assert bound.is_in_range, "a bound that cannot be read back"
    payload = MAGIC + bound.to_int().to_bytes(PACKED_BYTES, "big")
    return payload + _checksum(payload)


def decode_bound(data: bytes) -> Clock:
    """The bound in these bytes, or ``BadRecord``."""
    if len(data) != BOUND_FILE_BYTES:
        raise BadRecord(f"a clock bound is {BOUND_FILE_BYTES} bytes long, and this is not")
    payload, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if checksum != _checksum(payload):
        raise BadRecord("the checksum of the clock bound does not fit its bytes")
    if not payload.startswith(MAGIC):
        raise BadRecord("these bytes are not a clock bound of this version")
    return Clock.from_int(int.from_bytes(payload[len(MAGIC) :], "big"))


def _checksum(payload: bytes) -> bytes:
    return crc32c(payload).to_bytes(CHECKSUM_BYTES, "big")
