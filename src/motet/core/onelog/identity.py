"""The two small files beside a database's log: which database it is, and how far its clock may go.

The identity is written last when a database is founded, and says by its kind in which format the log is. The
bound of the clock is written after it.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.clock.reservation import decode_bound
from motet.errors import BadRecord
from motet.format.journal import scan
from motet.format.record import encode_record
from motet.ids import FileName

IDENTITY_FILE = FileName("identity")
BOUND_FILE = FileName("clock-bound")
IDENTITY_KIND = 2
OLDER_KINDS = (1,)
"""Kind 1 had a log of its own format."""

IDENTITY_SALT = 0x6D6F7465745F6462


def encode_identity(database: int) -> bytes:
    """The file that says which database this is."""
    return encode_record(IDENTITY_SALT, 0, IDENTITY_KIND, database.to_bytes(8, "big"))


def decode_identity(data: bytes) -> int:
    """The database's number; ``BadRecord`` when the file is damaged, or the log is of another format."""
    found = scan(data, IDENTITY_SALT)
    if len(found.records) != 1 or len(found.records[0].body) != 8:
        raise BadRecord(f"{IDENTITY_FILE} is damaged")
    kind = found.records[0].kind
    if kind != IDENTITY_KIND:
        when = "an earlier development" if kind in OLDER_KINDS else "a newer"
        raise BadRecord(
            f"the log is of another format, that of {when} version",
            hint="open it with that version, or begin anew in another folder",
        )
    return int.from_bytes(found.records[0].body, "big")


def decode_clock_bound(data: bytes) -> Clock | None:
    """The bound of the clock; None when there is no file."""
    return decode_bound(data) if data else None
