"""What clients and replicas of a table say to each other. Bytes travel beside these messages, by HTTP."""

from __future__ import annotations

import msgspec

from motet.core.machine import Message
from motet.core.mergetree.entries import PartHeader
from motet.ids import NodeId, RequestId, TableId, Zxid


class TableMessage(Message, frozen=True, tag=lambda name: f"tables.{name}"):
    """Above all of them. Each names the shard that it is for."""

    table: TableId
    shard: int


class TableRequest(TableMessage, frozen=True):
    """Above all requests; each gets one answer."""

    request: RequestId


class InsertBlock(TableRequest, frozen=True):
    """Commit a part whose bytes this replica has synced."""

    part: PartHeader
    #: on how many replicas it has to be before it is visible
    quorum: int
    #: names the insert within the table, so that a retry is known
    token: str
    #: of the rows as the client gave them: the same token with other rows is refused
    content: str
    #: the node of the name that the table was addressed by, and its version (T27); empty: by its id
    name_path: str = ""
    name_version: int = 0
    #: instead of a token: who inserts, and the number that it has given to this insert (T8)
    producer: str = ""
    number: int = 0


class DropPartitions(TableRequest, frozen=True):
    """Drop all rows of some partitions that were committed before, or of all."""

    partitions: tuple[str, ...] | None = None
    #: as of an insert (T27)
    name_path: str = ""
    name_version: int = 0


class ListParts(TableRequest, frozen=True):
    """The parts that answer a version, when the log is executed up to a head."""

    #: the number of the last entry at the moment of the client's read; -1: there was none
    head: int
    version: Zxid
    #: whatever is here, whatever head and version say (T40)
    is_eventual: bool = False


class TableAnswer(TableMessage, frozen=True):
    """Above all answers."""

    request: RequestId


class BlockInserted(TableAnswer, frozen=True):
    """It is committed, on as many replicas as were asked for, and visible from this version on."""

    name: str
    version: Zxid
    is_duplicate: bool = False


class PartitionsDropped(TableAnswer, frozen=True):
    """They are empty from this version on."""

    version: Zxid


class ListedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part, and the name that it has in this shard."""

    name: str
    header: PartHeader


class PartsListed(TableAnswer, frozen=True):
    """All rows of the version are in these parts."""

    parts: tuple[ListedPart, ...]


class TableRefused(TableAnswer, frozen=True):
    """It was not done, or with the code ``OUTCOME_UNKNOWN`` nobody knows."""

    code: str
    what: str
    advice: str


class LogHas(TableMessage, frozen=True):
    """A hint: somebody has committed an entry. It is never believed, the log is read."""

    number: int


class PartArrived(TableMessage, frozen=True):
    """From the node itself: bytes that an inserter streams ahead are synced, and promise nothing (T25)."""

    part: PartHeader
    sender: NodeId


REFERENCE: tuple[tuple[type[TableMessage], str, str], ...] = (
    (InsertBlock, "client", "replica"),
    (BlockInserted, "replica", "client"),
    (DropPartitions, "client", "replica"),
    (PartitionsDropped, "replica", "client"),
    (ListParts, "client", "replica"),
    (PartsListed, "replica", "client"),
    (TableRefused, "replica", "client"),
    (LogHas, "replica", "replica"),
    (PartArrived, "node", "replica"),
)
"""Who says what to whom."""
