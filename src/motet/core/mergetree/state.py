"""All there is to a replica of a table's shard, as plain data."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.mergetree.entries import PartHeader, PublishEntry
from motet.core.mergetree.history import History
from motet.core.mergetree.messages import DropPartitions, FindVersion, InsertBlock, ListParts
from motet.core.mergetree.names import PartName
from motet.core.mergetree.queued import QueuedPart
from motet.core.mergetree.staging_state import HeldPart, Releasing, Staging
from motet.core.mergetree.sweep import Sweep
from motet.core.metadata.messages import Found, MetadataAnswer
from motet.ids import Address, NodeId, PartId, RequestId, WorkId, WriteId, Zxid


class Phase(StrEnum):
    """How far a replica is."""

    #: there is no session with the keeper, or the disk has not been read
    WAITING = "waiting"
    #: own nodes are read
    LOADING = "loading"
    #: ``is_active`` is made and ``host`` raised
    ACTIVATING = "activating"
    #: the disk and the keeper are compared
    COMPARING = "comparing"
    #: takes inserts and executes the log
    ACTIVE = "active"
    #: answers readers as of what it has, and refuses everything else
    READ_ONLY = "read_only"


class OwnPart(msgspec.Struct, gc=False):
    """A part of this replica."""

    header: PartHeader
    #: its bytes are whole and synced
    is_stored: bool = False
    #: its node is below our ``parts``
    is_registered: bool = False
    #: its bytes are there, and are not what was written
    is_broken: bool = False


class Ending(msgspec.Struct):
    """A block that is to fail, or a part that is to be put aside."""

    #: the keeper has been asked
    is_asked: bool = False
    #: ask again then
    again_ns: int = 0


class Broken(msgspec.Struct):
    """A part whose bytes are not what was written."""

    #: the keeper has been asked
    is_asked: bool = False
    #: look again then
    again_ns: int = 0
    #: no other replica that is active has it
    is_only: bool = False
    #: what stores it once more
    work: WorkId | None = None


class InsertStep(StrEnum):
    """How far an insert is."""

    KEEPING = "keeping"
    #: another insert of its number, or too many of its producer, are being committed
    HELD = "held"
    READING = "reading"
    #: hashes that are out of their window are forgotten, then it reads again
    FORGETTING = "forgetting"
    #: that is known, and its bytes are still being written
    READ = "read"
    COMMITTING = "committing"
    #: the keeper did not say what became of the commit
    SETTLING = "settling"
    #: its entry is to be executed, or its quorum to end
    WAITING = "waiting"


class Insert(msgspec.Struct):
    """An insert that is not answered."""

    client: Address
    message: InsertBlock
    since_ns: int
    step: InsertStep = InsertStep.KEEPING
    #: of whose block the answer depends: our own part, or the one that has the token
    part: PartId | None = None
    #: its token was there already
    is_duplicate: bool = False
    #: a duplicate has the version of the read that found it visible
    version: Zxid = Zxid(0)
    #: the node of its content's hash was set then (U2), and the log is to be executed up to here (U3)
    hash_zxid: Zxid = Zxid(0)
    until: int = -1
    #: the hashes that are out of their window were forgotten for it
    is_window_exact: bool = False
    #: the host's version that the commit checked
    host_version: int = -1
    #: how often others came before its commit
    conflicts: int = 0
    #: what stores its bytes
    work: WorkId | None = None
    #: what was read meanwhile
    answer: MetadataAnswer | None = None


class ProducerLane(msgspec.Struct):
    """The node of a producer as it is when all commits of this replica that set it are done (K4)."""

    expected: Found
    #: the part that the last of them registers
    last: PartId
    #: the inserts whose commits are under way
    under_way: dict[int, None] = msgspec.field(default_factory=dict)


class Reader(msgspec.Struct):
    """A reader that waits for the log, or for parts."""

    client: Address
    message: ListParts
    since_ns: int
    #: the last part of the page before
    after: PartName | None = None
    #: parts without which it cannot be answered, in their order
    missing: dict[PartId, None] = msgspec.field(default_factory=dict)


class Finding(msgspec.Struct):
    """A client that asks for the version of a moment."""

    client: Address
    message: FindVersion
    since_ns: int
    #: the last entry that was appended until then, as far as is known, and its zxid
    low: int = -1
    version: Zxid = Zxid(0)
    #: the entries up to ``low`` have been trimmed
    has_gap: bool = False
    #: the last entry that may have been
    high: int = -1


class Dropping(msgspec.Struct, frozen=True):
    """A client whose drop is under way."""

    client: Address
    message: DropPartitions


# Calls: what was asked of the keeper. Each is answered by the function of its name.


class LoadOwn(msgspec.Struct, frozen=True, tag=True):
    """Own nodes, before activation."""


class Activate(msgspec.Struct, frozen=True, tag=True):
    """``is_active`` and ``host``."""


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Own parts and queue, after activation."""


class LoadQueue(msgspec.Struct, frozen=True, tag=True):
    """The entries in own queue; so many at a time."""

    left: tuple[int, ...]


class Deregister(msgspec.Struct, frozen=True, tag=True):
    """Own parts that are not on disk; so many at a time."""

    parts: tuple[PartId, ...]
    left: tuple[PartId, ...]


class ReadStatuses(msgspec.Struct, frozen=True, tag=True):
    """Open quorums of own parts that are not on disk (T23)."""

    parts: tuple[PartId, ...]
    left: tuple[PartId, ...]


class Pull(msgspec.Struct, frozen=True, tag=True):
    """The log from an entry on, and the quorums of parts that may be named there."""

    first: int
    coming: tuple[PartId, ...] = ()


class PullManifests(msgspec.Struct, frozen=True, tag=True):
    """The manifests of the next entry."""

    number: int
    zxid: Zxid
    entry: PublishEntry


class PutPointer(msgspec.Struct, frozen=True, tag=True):
    """``log_pointer`` and ``queue``."""

    pointer: int
    queued: tuple[int, ...]
    unqueued: tuple[int, ...]


class ReadPointer(msgspec.Struct, frozen=True, tag=True):
    """Where the pointer is, and what is queued, when that is not known."""


class ReadForInsert(msgspec.Struct, frozen=True, tag=True):
    """What an insert has to know before it commits."""

    insert: int


class CommitInsert(msgspec.Struct, frozen=True, tag=True):
    """The multi of an insert."""

    insert: int


class SettleWrite(msgspec.Struct, frozen=True, tag=True):
    """A write under the same session: when it is done, an unknown one before it is settled (R4)."""

    insert: int


class SettleRead(msgspec.Struct, frozen=True, tag=True):
    """Whether an unknown commit was done."""

    insert: int


class Locate(msgspec.Struct, frozen=True, tag=True):
    """Who has a part, and who is active."""

    part: PartId
    replicas: tuple[NodeId, ...]


class ReadQuorum(msgspec.Struct, frozen=True, tag=True):
    """The status of a quorum that a stored part can join."""

    part: PartId


class Register(msgspec.Struct, frozen=True, tag=True):
    """The multi that registers a part, and joins or ends its quorum."""

    part: PartId
    #: the number of the block whose quorum it ends
    ends: int | None = None


class ReadToFail(msgspec.Struct, frozen=True, tag=True):
    """What the multi that fails a quorum checks."""

    part: PartId
    replicas: tuple[NodeId, ...]
    #: a drop took the block: hosts are not checked (T32)
    is_dropped: bool


class Fail(msgspec.Struct, frozen=True, tag=True):
    """The multi that fails a quorum."""

    part: PartId
    is_dropped: bool


class Leave(msgspec.Struct, frozen=True, tag=True):
    """The multi that deregisters the part of a block that has failed."""

    part: PartId


class ReadBroken(msgspec.Struct, frozen=True, tag=True):
    """Who else has a part that is damaged here."""

    part: PartId
    replicas: tuple[NodeId, ...]


class GiveUp(msgspec.Struct, frozen=True, tag=True):
    """The multi that deregisters a part that is damaged here."""

    part: PartId


class ReadForDrop(msgspec.Struct, frozen=True, tag=True):
    """What a drop has to know before it commits."""

    drop: int


class CommitDrop(msgspec.Struct, frozen=True, tag=True):
    """The multi of a drop."""

    drop: int


class ReadJobs(msgspec.Struct, frozen=True, tag=True):
    """Staging jobs that old parts belong to."""

    jobs: tuple[str, ...]


class LetGo(msgspec.Struct, frozen=True, tag=True):
    """``host`` is raised before staged parts go."""


class ReadLogHead(msgspec.Struct, frozen=True, tag=True):
    """The head of the log after that."""


class ListJobs(msgspec.Struct, frozen=True, tag=True):
    """The staging jobs of the table."""


class ReadLeases(msgspec.Struct, frozen=True, tag=True):
    """How it stands with some of them."""

    jobs: tuple[str, ...]


class TouchStaging(msgspec.Struct, frozen=True, tag=True):
    """A write that tells the keeper's time, for jobs that are silent."""

    jobs: tuple[str, ...]


class JudgeLeases(msgspec.Struct, frozen=True, tag=True):
    """That time, and their leases."""

    jobs: tuple[str, ...]


class EndJob(msgspec.Struct, frozen=True, tag=True):
    """A job is collected, or removed."""

    job: str


class FindHead(msgspec.Struct, frozen=True, tag=True):
    """How many entries there are to search in."""

    finding: int


class FindEntries(msgspec.Struct, frozen=True, tag=True):
    """When some entries were appended."""

    finding: int
    numbers: tuple[int, ...]


class LookAtWindows(msgspec.Struct, frozen=True, tag=True):
    """How many tokens, producers and hashes there are."""


class ListWindow(msgspec.Struct, frozen=True, tag=True):
    """The names of all of a kind."""


class ReadWindow(msgspec.Struct, frozen=True, tag=True):
    """When some of them were used last."""

    count: int


class TrimWindow(msgspec.Struct, frozen=True, tag=True):
    """The multi that forgets some of them."""

    count: int


class WatchLog(msgspec.Struct, frozen=True, tag=True):
    """The watch on the log."""


Call = (
    LoadOwn
    | Activate
    | Compare
    | LoadQueue
    | Deregister
    | ReadStatuses
    | Pull
    | PullManifests
    | PutPointer
    | ReadPointer
    | ReadForInsert
    | CommitInsert
    | SettleWrite
    | SettleRead
    | Locate
    | ReadQuorum
    | Register
    | ReadToFail
    | Fail
    | Leave
    | ReadBroken
    | GiveUp
    | ReadForDrop
    | CommitDrop
    | ReadJobs
    | LetGo
    | ReadLogHead
    | ListJobs
    | ReadLeases
    | TouchStaging
    | JudgeLeases
    | EndJob
    | FindHead
    | FindEntries
    | LookAtWindows
    | ListWindow
    | ReadWindow
    | TrimWindow
    | WatchLog
)


class State(msgspec.Struct):
    """A replica's memory."""

    phase: Phase = Phase.WAITING
    #: why it is read-only or waiting, in words; and what of it was noted
    why: str = ""
    noted: str = ""
    #: the file with what was executed has been read
    is_read: bool = False
    #: so has the disk: what parts are here is known
    is_looked: bool = False
    #: entries that it needs have been trimmed (T23)
    is_lost: bool = False
    #: the keeper has another log than was executed here (T38)
    is_other_log: bool = False
    #: of the keepers whose log was executed, the present one last (T1); and how many of them the file has
    incarnations: tuple[str, ...] = ()
    written_incarnations: int = 0
    writing_incarnations: int = 0
    #: what the log says, and every entry that the file does not hold yet
    history: History = msgspec.field(default_factory=History)
    unwritten: list[tuple[int, Zxid, bytes]] = msgspec.field(default_factory=list)
    #: they are written then; 0: there are none, or they are being written
    write_due_ns: int = 0
    #: the last entry that was executed
    last_entry: bytes = b""
    #: the size of the file, what is being written to it, and up to which entry it is durable
    file_bytes: int = 0
    writing: WriteId | None = None
    writing_number: int = 0
    writing_bytes: int = 0
    #: after a full disk: not before that
    write_again_ns: int = 0
    durable_number: int = 0
    #: what own nodes in the keeper say
    host_version: int = -1
    is_lost_version: int = -1
    pointer: int = 0
    pointer_version: int = -1
    queued: dict[int, None] = msgspec.field(default_factory=dict)
    pointer_call: RequestId | None = None
    pointer_due_ns: int = 0
    #: of all replicas of the shard, own one too; known since it was activated
    replicas: tuple[NodeId, ...] = ()
    parts: dict[PartId, OwnPart] = msgspec.field(default_factory=dict)
    #: bytes that may be stored again: arrived or detached
    aside: dict[PartId, PartHeader] = msgspec.field(default_factory=dict)
    look: WorkId | None = None
    #: while the disk is looked at a second time: the parts that are registered
    listed: tuple[PartId, ...] | None = None
    #: stored parts of which only the names of their folders are known; what reads the manifests of some
    named: dict[PartId, None] = msgspec.field(default_factory=dict)
    reading: WorkId | None = None
    read_names: tuple[PartId, ...] = ()
    #: bytes that are pushed to us: what writes them, and when they came
    arriving: dict[WorkId, PartHeader] = msgspec.field(default_factory=dict)
    pushed: dict[PartId, int] = msgspec.field(default_factory=dict)
    #: parts that are staged here; what stages them; clients that wait for that
    held: dict[PartId, HeldPart] = msgspec.field(default_factory=dict)
    holding: dict[WorkId, PartId] = msgspec.field(default_factory=dict)
    staging: dict[int, Staging] = msgspec.field(default_factory=dict)
    releasing: Releasing = msgspec.field(default_factory=Releasing)
    staged_look_ns: int = 0
    #: what is out of its window: when it is looked at, each not before; what is being forgotten, and then
    windows_look_ns: int = 0
    windows_again_ns: dict[str, int] = msgspec.field(default_factory=dict)
    sweep: Sweep | None = None
    sweeps_left: list[Sweep] = msgspec.field(default_factory=list)
    #: staging jobs of the table: when they are looked at, up to which, and when each lease was renewed
    jobs_look_ns: int = 0
    jobs_seen: str = ""
    leases: dict[str, Zxid] = msgspec.field(default_factory=dict)
    #: when the disk was looked at last
    look_ns: int = 0
    #: parts that are not registered here, in the order of the log
    queue: dict[PartId, QueuedPart] = msgspec.field(default_factory=dict)
    #: of them: what the step has something to do for, what is being fetched, what waits until less is
    todo: dict[PartId, None] = msgspec.field(default_factory=dict)
    fetching: dict[PartId, None] = msgspec.field(default_factory=dict)
    line: dict[PartId, None] = msgspec.field(default_factory=dict)
    #: open blocks below a drop, which are to fail
    to_fail: dict[PartId, Ending] = msgspec.field(default_factory=dict)
    #: parts of blocks that have failed, which are to be put aside
    to_leave: dict[PartId, Ending] = msgspec.field(default_factory=dict)
    #: parts whose bytes are damaged here; and those that a look has found so
    broken: dict[PartId, Broken] = msgspec.field(default_factory=dict)
    damaged: dict[PartId, None] = msgspec.field(default_factory=dict)
    #: the log is being read; and it has to be read again then
    pulling: RequestId | None = None
    is_pull_wanted: bool = False
    #: parts whose bytes have come, and that an entry will name soon
    coming: dict[PartId, None] = msgspec.field(default_factory=dict)
    #: told of meanwhile: an entry, and a change of the log
    hinted: int = -1
    changed: Zxid = Zxid(0)
    #: all entries up to this zxid are executed, or were read under this session
    log_zxid: Zxid = Zxid(0)
    #: not before that, unless somebody tells of an entry
    pull_again_ns: int = 0
    #: a head that somebody has named since the log was read
    head_heard: int = -1
    #: how many entries are read at a time; fewer when they were too large for one answer
    pull_max: int = 0
    inserts: dict[int, Insert] = msgspec.field(default_factory=dict)
    next_insert: int = 1
    #: of producers whose nodes are being set
    lanes: dict[str, ProducerLane] = msgspec.field(default_factory=dict)
    findings: dict[int, Finding] = msgspec.field(default_factory=dict)
    drops: dict[int, Dropping] = msgspec.field(default_factory=dict)
    readers: list[Reader] = msgspec.field(default_factory=list)
    #: what is being done with the bytes of which part; and whose bytes are on their way out
    works: dict[WorkId, PartId] = msgspec.field(default_factory=dict)
    leaving: dict[WorkId, PartId] = msgspec.field(default_factory=dict)
    #: what is being stored for the queue: it may end when the queue has been made anew
    storing: dict[WorkId, PartHeader] = msgspec.field(default_factory=dict)
    calls: dict[RequestId, Call] = msgspec.field(default_factory=dict)
