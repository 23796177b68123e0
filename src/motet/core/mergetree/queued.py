"""Parts that the log names and that are not registered here yet: how far each of them is."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.mergetree.entries import PartHeader
from motet.core.metadata.messages import Found
from motet.ids import WorkId, Zxid


class Step(StrEnum):
    """What a queued part waits for."""

    #: it is not here, and nobody has been asked
    WANTED = "wanted"
    #: who has it is being read
    LOCATING = "locating"
    FETCHING = "fetching"
    #: it is stored here, and not registered
    STORED = "stored"
    #: its quorum is being read
    JOINING = "joining"
    #: the multi that registers it is under way
    REGISTERING = "registering"
    #: nobody has it, and the multi that fails its quorum is under way
    FAILING = "failing"


class KnownQuorum(msgspec.Struct, frozen=True):
    """What joining a quorum begins with, as it was read with the entry of its block."""

    zxid: Zxid
    status: Found
    last_part: Found


class QueuedPart(msgspec.Struct):
    """A part that an entry brings and that is not registered here yet."""

    number: int
    header: PartHeader
    step: Step = Step.WANTED
    #: in words, for people
    reason: str = ""
    #: look again then
    again_ns: int = 0
    tries: int = 0
    #: what gets its bytes
    work: WorkId | None = None
    #: storing bytes that were aside has failed: ask others before it is tried again
    is_aside_tried: bool = False
    quorum: KnownQuorum | None = None
