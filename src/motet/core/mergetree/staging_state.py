"""Parts that are held for publications, as plain data of a replica."""

from __future__ import annotations

import msgspec

from motet.core.mergetree.entries import PartHeader
from motet.ids import Address, NodeId, PartId, RequestId, WorkId


class HeldPart(msgspec.Struct):
    """A part that is staged here, or is to be."""

    header: PartHeader
    #: the staging job; empty: it is in none; None: it was found here at a start
    job: str | None
    #: when it was synced, or asked for last
    since_ns: int
    #: its bytes are among the staged ones
    is_synced: bool = False
    #: what stages it, and who waits for that
    work: WorkId | None = None
    asked_by: dict[Address, None] = msgspec.field(default_factory=dict)


class Staging(msgspec.Struct):
    """A client whose part is being staged."""

    client: Address
    request: RequestId
    part: PartHeader
    job: str
    quorum: int
    since_ns: int
    #: others are asked again then
    again_ns: int = 0
    #: who holds it, and the version of whose ``host``
    holders: dict[NodeId, int] = msgspec.field(default_factory=dict)
    refused: dict[NodeId, None] = msgspec.field(default_factory=dict)


class Releasing(msgspec.Struct):
    """Staged parts that are to go."""

    parts: dict[PartId, None] = msgspec.field(default_factory=dict)
    #: ``host`` is being raised for them: which version it has is not known
    is_raising: bool = False
    #: when the log has been read up to here; None: that is not known yet
    head: int | None = None
