"""What a core asks of the keeper, and what it is told.

The keeper is a tree of nodes, each with data, a version and a stat, as ZooKeeper has it. A core reaches it
at the address ``METADATA``: in a process that is an adapter around a keeper client
(:mod:`motet.node.metadata_port`), in a simulation an actor on the keeper's own state machine
(:mod:`motet.sim.metadata_tree`). Both pass the same contract suite.

M1  A request belongs to a session. Under another one it is refused (``SessionOver``) and never sent again:
    what a former life of a core has asked cannot be done in the name of the next one.
M2  Requests of one session take effect in the order in which they were sent, each at one moment after it was
    sent. A write that is *unknown* may take effect later, but not after its session is over.
M3  A read shows everything that was answered to anybody before it was sent, and names the zxid of its moment:
    all its nodes are as they were then.
M4  A write is done as a whole or not at all. ``Conflict`` says which operation was refused; then, and with
    ``Failed`` and ``SessionOver``, nothing was done. After ``Unknown`` a core has to read.
M5  After ``Watching`` each change is told by a ``Changed``, until the session is over; several changes may
    be told as one. It says that something has changed, not what: read.
M6  Sessions begin and end by themselves. ``SessionEnded`` takes the watches, the candidacies and the
    ephemeral nodes of a session with it; the keeper may learn of the end later than the core does.
M7  Of all candidates at a path the one with the oldest entry is elected. Two may believe it of themselves
    for a moment, so whatever a leader writes checks its own entry (``Elected.entry``, version 0), or names
    the version of what it replaces.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.machine import Message
from motet.ids import Address, RequestId, SessionId, Zxid

METADATA = Address("metadata")

ANY_VERSION = -1
"""As the version in a ``Delete`` or a ``Check``: whatever it is, the node is there."""

NO_SESSION = SessionId(0)


class MetadataMessage(Message, frozen=True, tag=lambda name: f"metadata.{name}"):
    """Above all messages between a core and the keeper."""


class MetadataRequest(MetadataMessage, frozen=True):
    """Above all requests. Each is answered once, unless its session ends first."""

    request: RequestId
    session: SessionId


class MetadataAnswer(MetadataMessage, frozen=True):
    """Above all answers."""

    request: RequestId


# Reads


class NodeStat(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a node besides its data."""

    version: int
    #: counts the children that were created and those that were deleted
    cversion: int
    children: int
    #: the zxid that created it, and the one that set its data last
    czxid: Zxid
    mzxid: Zxid
    #: the same two moments, by the keeper's clock
    ctime_ms: int
    mtime_ms: int
    #: whose ephemeral node it is; 0: it stays
    owner: SessionId


class Get(msgspec.Struct, frozen=True, tag=True):
    """The data and the stat of a node."""

    path: str


class Children(msgspec.Struct, frozen=True, tag=True):
    """The names below a node. The keeper sorts all of them: not for nodes with many children."""

    path: str


class Found(msgspec.Struct, frozen=True, tag=True):
    """The answer to ``Get``."""

    path: str
    data: bytes
    stat: NodeStat


class Names(msgspec.Struct, frozen=True, tag=True):
    """The answer to ``Children``, sorted."""

    path: str
    names: tuple[str, ...]


class Absent(msgspec.Struct, frozen=True, tag=True):
    """There is no such node."""

    path: str


ReadOperation = Get | Children
ReadResult = Found | Names | Absent


class Read(MetadataRequest, frozen=True):
    """All of these at one moment. Too much for one answer is ``Failed`` with ``KEEPER_TOO_LARGE``."""

    operations: tuple[ReadOperation, ...]


class ReadDone(MetadataAnswer, frozen=True):
    """What each of them found, in their order."""

    zxid: Zxid
    results: tuple[ReadResult, ...]


# Writes


class Create(msgspec.Struct, frozen=True, tag=True):
    """Make a node; its parent must be there."""

    path: str
    data: bytes = b""
    #: it goes with the session
    ephemeral: bool = False
    #: the keeper adds a number to the path, which only ever rises below one parent
    sequential: bool = False


class Set(msgspec.Struct, frozen=True, tag=True):
    """Give a node other data if it has this version."""

    path: str
    data: bytes
    version: int


class Delete(msgspec.Struct, frozen=True, tag=True):
    """Delete a node if it has this version and no children."""

    path: str
    version: int


class Check(msgspec.Struct, frozen=True, tag=True):
    """Go on only if a node has this version."""

    path: str
    version: int


WriteOperation = Create | Set | Delete | Check


class Write(MetadataRequest, frozen=True):
    """All of these, in their order and at one moment, or none. Too much for one write is ``Failed`` with
    ``KEEPER_TOO_LARGE``; ``zookeeper.why_too_large`` tells before."""

    operations: tuple[WriteOperation, ...]


class Written(MetadataAnswer, frozen=True):
    """It is done. For each operation: the path of a create, the version after a set, else None."""

    zxid: Zxid
    results: tuple[str | int | None, ...]


class Refusal(StrEnum):
    """Why an operation of a write was refused."""

    BAD_VERSION = "bad_version"
    NODE_EXISTS = "node_exists"
    #: the node, or the parent of one to be created, is not there
    NO_NODE = "no_node"
    NOT_EMPTY = "not_empty"
    #: its parent is ephemeral
    EPHEMERAL_PARENT = "ephemeral_parent"


class Conflict(MetadataAnswer, frozen=True):
    """Nothing was written: this operation was refused."""

    index: int
    why: Refusal


class Unknown(MetadataAnswer, frozen=True):
    """It may have been written, or may be written yet (M2); read."""


class Failed(MetadataAnswer, frozen=True):
    """Nothing was done: the keeper was not reached, or does not take such a request."""

    code: str
    what: str
    advice: str


class SessionOver(MetadataAnswer, frozen=True):
    """Nothing was done: the request is of a session that has ended (M1)."""


# Watches


class WatchOf(StrEnum):
    """What is watched."""

    #: that the node is there, and its data
    NODE = "node"
    #: the names below it
    CHILDREN = "children"
    #: the names below it, and the data of each
    BELOW = "below"


class Watch(MetadataRequest, frozen=True):
    """Tell of every change from now on, as long as the session lasts; the node need not be there yet."""

    path: str
    of: WatchOf


class Watching(MetadataAnswer, frozen=True):
    """What changes from now on is told."""


class Changed(MetadataMessage, frozen=True):
    """Something that is watched at this path has changed.

    Whoever has read it at ``zxid`` or later knows of it; 0: it is not known since when it would be told anew.
    """

    session: SessionId
    path: str
    zxid: Zxid = Zxid(0)


# Sessions and elections


class SessionBegun(MetadataMessage, frozen=True):
    """Requests are taken under this session from now on."""

    session: SessionId


class SessionEnded(MetadataMessage, frozen=True):
    """It is over, or has to be taken for over; another one may begin."""

    session: SessionId


class Stand(MetadataRequest, frozen=True):
    """Be a candidate at this path, under this name: by an ephemeral, sequential node below it."""

    path: str
    name: str


class Standing(MetadataAnswer, frozen=True):
    """The candidacy is entered."""

    entry: str


class Elected(MetadataMessage, frozen=True):
    """The entry is the oldest at its path."""

    session: SessionId
    path: str
    #: for a ``Check`` with version 0 in all that the leader writes (M7)
    entry: str


class Deposed(MetadataMessage, frozen=True):
    """The entry is gone while its session lasts: somebody has deleted it."""

    session: SessionId
    path: str


REFERENCE: tuple[tuple[type[MetadataMessage], str, str], ...] = (
    (SessionBegun, "keeper", "core"),
    (SessionEnded, "keeper", "core"),
    (Read, "core", "keeper"),
    (ReadDone, "keeper", "core"),
    (Write, "core", "keeper"),
    (Written, "keeper", "core"),
    (Conflict, "keeper", "core"),
    (Unknown, "keeper", "core"),
    (Failed, "keeper", "core"),
    (SessionOver, "keeper", "core"),
    (Watch, "core", "keeper"),
    (Watching, "keeper", "core"),
    (Changed, "keeper", "core"),
    (Stand, "core", "keeper"),
    (Standing, "keeper", "core"),
    (Elected, "keeper", "core"),
    (Deposed, "keeper", "core"),
)
"""Who says what to whom."""


nodes_max = 500
"""In one read of a listing."""


class Listing(msgspec.Struct, frozen=True):
    """The nodes at some paths and the children of each: first the names are read, then the nodes.

    Each read is at one moment; the reads of a long listing are not at the same one. A node that is gone by
    its read is left out, one that came after the names were read is missed: a watch that was set before tells
    of both.
    """

    paths: tuple[str, ...]
    has_names: bool = False
    #: to be read, in order
    wanted: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()

    @property
    def operations(self) -> tuple[ReadOperation, ...]:
        """What to read next; nothing when all is found."""
        if not self.has_names:
            return tuple(Children(path) for path in self.paths)
        return tuple(Get(path) for path in self.wanted[:nodes_max])

    def after(self, results: tuple[ReadResult, ...]) -> Listing:
        """The listing when its next read is done."""
        if self.has_names:
            found = tuple(each for each in results if isinstance(each, Found))
            return msgspec.structs.replace(
                self, wanted=self.wanted[nodes_max:], found=self.found + found
            )
        below = [
            f"{each.path}/{name}"
            for each in results
            if isinstance(each, Names)
            for name in each.names
        ]
        wanted = tuple(sorted(dict.fromkeys((*self.paths, *below))))
        return msgspec.structs.replace(self, has_names=True, wanted=wanted)
