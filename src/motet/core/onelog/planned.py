"""What becomes of a request whose turn has come."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.core.onelog.record import LogRecord


class Planned(msgspec.Struct, frozen=True):
    """A record to write, and the answer when it is durable."""

    record: LogRecord
    answer: Message


class Answered(msgspec.Struct, frozen=True):
    """Nothing to write: the answer is about the record with this clock, which may still be under way."""

    answer: Message
    clock: Clock
