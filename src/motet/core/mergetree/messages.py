"""What clients and replicas of tables say to each other. Bytes travel beside these messages, by HTTP.

There are two kinds of requests. A ``TableRequest`` is for the replica of a shard. A ``NodeRequest`` is about
whole tables: any data node answers it, whether or not it has a replica of them.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.machine import Message
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.version import Version
from motet.core.metadata.definitions import TableDefinition
from motet.core.metadata.table_settings import TableSettings
from motet.ids import NodeId, PartId, RequestId, TableId, TableName, WriterName, Zxid


class TableMessage(Message, frozen=True, tag=lambda name: f"tables.{name}"):
    """Above all of them. Each names the shard that it is for."""

    table: TableId
    shard: int


class TableRequest(TableMessage, frozen=True):
    """Above all requests; each gets one answer."""

    request: RequestId


class PartBytes(msgspec.Struct, frozen=True, array_like=True):
    """A small part that travels within a message; larger ones are put by HTTP before."""

    #: "parquet": a finished part, ``manifest`` is its manifest; "arrow": rows as an IPC stream, to be encoded
    kind: str
    manifest: bytes
    data: bytes


class InsertBlock(TableRequest, frozen=True):
    """Commit a part whose bytes have arrived at this replica, or are in ``block``."""

    part: PartHeader
    #: on how many replicas it has to be before it is visible; 0: on the majority of them
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
    block: PartBytes | None = None
    #: of the rows of this part, in a table with ``dedup="content"``: the same ones twice are one block (T9)
    dedup_hash: str = ""


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
    #: the name of the last part of the page before; empty: the first page (V6)
    after: str = ""
    #: of the version; empty: it is not told
    incarnation: str = ""


class StagePart(TableRequest, frozen=True):
    """Hold a part whose bytes have arrived here until it is published, and have others hold it, too."""

    part: PartHeader
    #: on how many replicas it has to be; 0: on the majority of them
    quorum: int = 0
    #: the staging job that it belongs to; empty: the publication follows at once (T26)
    job: str = ""
    block: PartBytes | None = None


class FindVersion(TableRequest, frozen=True):
    """The version of the shard at a moment, by the keeper's clock."""

    time_ms: int


class TableAnswer(TableMessage, frozen=True):
    """Above all answers."""

    request: RequestId


class BlockInserted(TableAnswer, frozen=True):
    """It is committed, on as many replicas as were asked for, and visible from this version on."""

    name: str
    version: Zxid
    is_duplicate: bool = False
    #: of the version; empty: that of whoever has described the table (T1)
    incarnation: str = ""
    #: a duplicate by its rows, with ``dedup="content"``, and not by its token
    is_by_content: bool = False


class PartitionsDropped(TableAnswer, frozen=True):
    """They are empty from this version on."""

    version: Zxid


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A replica that has synced a staged part, and the version of its ``host`` when it said so."""

    node: NodeId
    host_version: int


class ListedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part, and the name that it has in this shard."""

    name: str
    header: PartHeader


class PartsListed(TableAnswer, frozen=True):
    """All rows of a page of the version are in these parts; if there are more, ask again after the last."""

    parts: tuple[ListedPart, ...]
    more: bool = False


class PartStaged(TableAnswer, frozen=True):
    """It is held, synced, by these replicas; each with the version that its ``host`` had then (T5)."""

    part: PartHeader
    holders: tuple[Holder, ...]


class VersionFound(TableAnswer, frozen=True):
    """The zxid of the last entry that was appended until then; 0: there was none."""

    version: Zxid


class TableRefused(TableAnswer, frozen=True):
    """It was not done, or with the code ``OUTCOME_UNKNOWN`` nobody knows."""

    code: str
    what: str
    advice: str


# About whole tables


class NodeRequest(Message, frozen=True, tag=lambda name: f"tables.{name}"):
    """Above all requests that any data node answers."""

    request: RequestId


class NodeAnswer(Message, frozen=True, tag=lambda name: f"tables.{name}"):
    """Above all answers to them."""

    request: RequestId


class CreateTable(NodeRequest, frozen=True):
    """Create a table; the same once more is fine, another one of that name is not."""

    name: TableName
    definition: TableDefinition
    #: of each shard; None: three, or as many as there are data nodes
    replicas: int | None = None


class TableReady(NodeAnswer, frozen=True):
    """It is there."""

    definition: TableDefinition
    is_new: bool


class DropTable(NodeRequest, frozen=True):
    """Remove a table with all its rows."""

    name: TableName


class RenameTable(NodeRequest, frozen=True):
    """Give a table another name."""

    name: TableName
    new_name: TableName


class ChangeSettings(NodeRequest, frozen=True):
    """Set some settings of a table; None takes one back."""

    name: TableName
    changes: dict[str, int | None]


class TableChanged(NodeAnswer, frozen=True):
    """It is done, from this version on."""

    version: Version


class ListTables(NodeRequest, frozen=True):
    """The tables there are, a page of them."""

    after: str = ""


class NamedTable(msgspec.Struct, frozen=True, array_like=True):
    """A table, its name, and how many replicas each of its shards has."""

    name: TableName
    definition: TableDefinition
    replicas: int
    #: when it was created, by the keeper's clock
    created_ms: int
    settings: TableSettings = TableSettings()


class TablesListed(NodeAnswer, frozen=True):
    """They are sorted by name; ``more`` if others follow."""

    tables: tuple[NamedTable, ...]
    more: bool


class DescribeTables(NodeRequest, frozen=True):
    """All that a query or an insert has to know of these tables, at one moment."""

    names: tuple[TableName, ...]


class ReplicaPlace(msgspec.Struct, frozen=True, array_like=True):
    """A replica, where it is served, and whether it takes requests."""

    node: NodeId
    #: as the node wrote it into ``host``: its native endpoint
    endpoint: str
    is_active: bool
    is_lost: bool


class ShardAt(msgspec.Struct, frozen=True, array_like=True):
    """A shard at the moment of the read."""

    #: the number of the last entry of its log; -1: there is none
    head: int
    replicas: tuple[ReplicaPlace, ...]


class TableAt(msgspec.Struct, frozen=True, array_like=True):
    """A table at the moment of the read."""

    name: TableName
    #: of the node of its name, for who addresses it by name (T27)
    name_version: int
    definition: TableDefinition
    #: of the node of its definition
    definition_version: int
    shards: tuple[ShardAt, ...]


class TablesDescribed(NodeAnswer, frozen=True):
    """The tables as they were at this version."""

    version: Version
    tables: tuple[TableAt, ...]


class StagedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part that is held, and by whom."""

    shard: int
    header: PartHeader
    holders: tuple[Holder, ...]
    #: in a table with ``dedup="content"``: of all rows that the same call has staged in this shard and
    #: partition, in whatever number of parts, and which call that was (T9)
    dedup_hash: str = ""
    dedup_call: str = ""


class TablePublication(msgspec.Struct, frozen=True, array_like=True):
    """What one table gets of a publication."""

    table: TableId
    definition_version: int
    parts: tuple[StagedPart, ...]
    #: what these partitions held before is dropped
    replace: tuple[str, ...] = ()
    #: the node of the name that the table was addressed by, and its version (T27); empty: by its id
    name_path: str = ""
    name_version: int = 0
    #: a hash of its rows: the same token with others is refused
    content: str = ""


class PublishParts(NodeRequest, frozen=True):
    """Make staged parts of some tables visible, all of them or none."""

    tables: tuple[TablePublication, ...]
    #: at most one of token, producer and step names it, so that a retry is known
    token: str = ""
    producer: str = ""
    number: int = 0
    step: WriterStep | None = None
    #: the staging jobs that the parts belong to; they end with this
    jobs: tuple[str, ...] = ()


class PartsPublished(NodeAnswer, frozen=True):
    """They are visible from this version on."""

    version: Version
    #: of each part in the order of the request: its name in its shard, empty for one that was left out since
    #: its rows are there already (T9); none for a duplicate
    names: tuple[str, ...]
    is_duplicate: bool = False


class ReadWriters(NodeRequest, frozen=True):
    """How far is an ordered writer; all of them for None?"""

    writer: WriterName | None = None


class WriterStanding(msgspec.Struct, frozen=True, array_like=True):
    """How far an ordered writer is."""

    writer: WriterName
    #: its last step; None when it has not published yet
    step: WriterStep | None
    #: the version at which that was published
    version: Version | None
    #: when it published last, and when it said something, by the keeper's clock
    published_ms: int
    noted_ms: int
    #: rows and steps it has published
    rows: int
    steps: int
    tables: tuple[TableId, ...]
    #: its last error; empty when all is well
    error: str


class WritersAre(NodeAnswer, frozen=True):
    """Those that are there, by name."""

    writers: tuple[WriterStanding, ...]


class NoteWriter(NodeRequest, frozen=True):
    """Remember an ordered writer's last error; empty when all is well."""

    writer: WriterName
    error: str


class WriterNoted(NodeAnswer, frozen=True):
    """It is remembered."""


class PublishedStep(msgspec.Struct, frozen=True, array_like=True):
    """A step of an ordered writer, and the version at which it became visible."""

    epoch: int
    after: Clock | None
    through: Clock
    version: Version


class ReadSteps(NodeRequest, frozen=True):
    """The steps of an ordered writer after an epoch, a page of them; those that are remembered."""

    writer: WriterName
    after_epoch: int = -1


class StepsAre(NodeAnswer, frozen=True):
    """They are in their order; ``more`` if others follow."""

    steps: tuple[PublishedStep, ...]
    more: bool


class FindStep(NodeRequest, frozen=True):
    """The first step of an ordered writer that reflects the feed up to a clock."""

    writer: WriterName
    through: Clock


class StepFound(NodeAnswer, frozen=True):
    """It; None: the writer is not there yet, or the step ``is_forgotten``."""

    step: PublishedStep | None
    is_forgotten: bool = False


class OpenJob(NodeRequest, frozen=True):
    """Begin staging parts for these tables over a longer time; to repeat it is fine."""

    job: str
    tables: tuple[TableId, ...]


class RenewJob(NodeRequest, frozen=True):
    """Whoever stages is still there: to be said every 20 s; after 60 s of silence the parts are collected."""

    job: str
    tables: tuple[TableId, ...]


class JobStanding(NodeAnswer, frozen=True):
    """How it stands with the job, in the table where it is worst: open, published, collected or absent."""

    value: str


class NodeRefused(NodeAnswer, frozen=True):
    """It was not done, or with the code ``OUTCOME_UNKNOWN`` nobody knows."""

    code: str
    what: str
    advice: str


# Between replicas


class LogHas(TableMessage, frozen=True):
    """A hint: somebody has committed an entry. It is never believed, the log is read."""

    number: int


class HoldPart(TableMessage, frozen=True):
    """Hold a staged part; ``source`` has it, if its bytes have not arrived by themselves."""

    part: PartHeader
    source: NodeId
    job: str = ""
    block: PartBytes | None = None


class PartPushed(TableMessage, frozen=True):
    """Bytes of an insert, sent ahead: keep them aside, they promise nothing (T25)."""

    part: PartHeader
    block: PartBytes


class PartHeld(TableMessage, frozen=True):
    """It is synced here, while ``host`` had this version; -1: it cannot be held here."""

    part: PartId
    host_version: int


class ReadDrops(TableMessage, frozen=True):
    """When were these partitions dropped last, as the log says up to this zxid?"""

    partitions: tuple[str, ...]
    through: Zxid


class DropsAre(TableMessage, frozen=True):
    """All that is older than these versions is dropped; the log was executed up to ``through``."""

    partitions: tuple[str, ...]
    drops: tuple[Zxid, ...]
    through: Zxid


class PartArrived(TableMessage, frozen=True):
    """From the node itself: bytes that an inserter streams ahead are synced, and promise nothing (T25)."""

    part: PartHeader
    sender: NodeId


class PartBroken(TableMessage, frozen=True):
    """From the node itself: the bytes of a stored part are not what was written (T37)."""

    part: PartId
