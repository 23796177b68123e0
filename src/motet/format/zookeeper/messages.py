"""What a ZooKeeper client can ask for, one type per operation, and what it is answered.

The codec makes these of bytes and bytes of these, and the keeper's state machine takes and makes them as they
are: nothing translates in between. Each request knows its number on the wire (``OPCODES``).

The data of a node may be null, which is not the same as empty: whoever wrote None reads None.
"""

from __future__ import annotations

import enum

import msgspec

ANY_VERSION = -1
"""As an expected version: whatever it is."""


class CreateFlags(enum.IntFlag):
    """How a node is created."""

    PERSISTENT = 0
    EPHEMERAL = 1
    SEQUENTIAL = 2


class Acl(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Who may do what: ``permissions`` is a sum of read 1, write 2, create 4, delete 8, admin 16."""

    permissions: int
    scheme: str
    id: str


class Request(msgspec.Struct, frozen=True, array_like=True, tag=0, forbid_unknown_fields=True):
    """Above all operations."""


# Writes


class Create(Request, frozen=True, tag=1):
    """Make a node; the answer is its path."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    flags: int


class Create2(Request, frozen=True, tag=15):
    """Make a node; the answer is its path and its stat."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    flags: int


class Delete(Request, frozen=True, tag=2):
    path: str
    version: int


class SetData(Request, frozen=True, tag=5):
    path: str
    data: bytes | None
    version: int


class SetAcl(Request, frozen=True, tag=7):
    path: str
    acl: tuple[Acl, ...]
    #: of the ACL, not of the data
    version: int


class Check(Request, frozen=True, tag=13):
    """In a multi: go on only if the node has this version."""

    path: str
    version: int


class Multi(Request, frozen=True, tag=14):
    """All of these, or none."""

    operations: tuple[Create | Create2 | Delete | SetData | Check, ...]


# Reads


class Exists(Request, frozen=True, tag=3):
    path: str
    watch: bool


class GetData(Request, frozen=True, tag=4):
    path: str
    watch: bool


class GetAcl(Request, frozen=True, tag=6):
    path: str


class GetChildren(Request, frozen=True, tag=8):
    path: str
    watch: bool


class GetChildren2(Request, frozen=True, tag=12):
    """With the stat of the node."""

    path: str
    watch: bool


class MultiRead(Request, frozen=True, tag=22):
    """Each of these as at one zxid; one that fails does not fail the others."""

    operations: tuple[GetData | GetChildren, ...]


# About the session


class Sync(Request, frozen=True, tag=9):
    """Answered when this server has all that was done before."""

    path: str


class Ping(Request, frozen=True, tag=11):
    pass


class Auth(Request, frozen=True, tag=100):
    """From now on this session is also this identity."""

    scheme: str
    auth: bytes


class SetWatches(Request, frozen=True, tag=101):
    """After a reconnect: the watches of before, and what of them has happened since ``relative_zxid``."""

    relative_zxid: int
    data: tuple[str, ...]
    exists: tuple[str, ...]
    children: tuple[str, ...]


class CloseSession(Request, frozen=True, tag=-11):
    pass


class Unknown(Request, frozen=True, tag=-1):
    """An operation that this server does not have, such as reconfig or sasl."""

    opcode: int


WriteRequest = Create | Create2 | Delete | SetData | SetAcl | Check | Multi
ReadRequest = Exists | GetData | GetAcl | GetChildren | GetChildren2 | MultiRead
SessionRequest = Sync | Ping | Auth | SetWatches | CloseSession

OPCODES: dict[type[Request], int] = {
    Create: 1,
    Delete: 2,
    Exists: 3,
    GetData: 4,
    SetData: 5,
    GetAcl: 6,
    SetAcl: 7,
    GetChildren: 8,
    Sync: 9,
    Ping: 11,
    GetChildren2: 12,
    Check: 13,
    Multi: 14,
    Create2: 15,
    MultiRead: 22,
    Auth: 100,
    SetWatches: 101,
    CloseSession: -11,
}
"""The number of each operation on the wire."""


class ErrorCode(enum.IntEnum):
    """The protocol's errors that a server of ours gives."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    RECONFIG_DISABLED = -123
    QUOTA_EXCEEDED = -125


class Stat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a node besides its data, in the order of the wire."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class EventType(enum.IntEnum):
    """What happened to a watched node."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILD = 4


class WatchEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    type: int
    path: str


# Results: the body after a reply's header


class Result(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Above all results."""


class Nothing(Result, frozen=True, tag=1):
    """Of delete, check, ping, auth, set_watches and close."""


class Created(Result, frozen=True, tag=2):
    path: str


class Created2(Result, frozen=True, tag=3):
    path: str
    stat: Stat


class StatResult(Result, frozen=True, tag=4):
    """Of exists, set_data and set_acl."""

    stat: Stat


class Data(Result, frozen=True, tag=5):
    data: bytes | None
    stat: Stat


class AclResult(Result, frozen=True, tag=6):
    acl: tuple[Acl, ...]
    stat: Stat


class Children(Result, frozen=True, tag=7):
    children: tuple[str, ...]


class Children2(Result, frozen=True, tag=8):
    children: tuple[str, ...]
    stat: Stat


class Synced(Result, frozen=True, tag=9):
    path: str


class Failed(Result, frozen=True, tag=10):
    """On its own an error without a body; among the results of a multi the error of one operation."""

    error: int


class MultiResult(Result, frozen=True, tag=11):
    """One for each operation, in order. A multi that failed has ``Failed`` for each: 0 before the one that
    failed, its error, and ``RUNTIME_INCONSISTENCY`` after it."""

    results: tuple[Nothing | Created | Created2 | StatResult | Data | Children | Failed, ...]


AnyResult = (
    Nothing
    | Created
    | Created2
    | StatResult
    | Data
    | AclResult
    | Children
    | Children2
    | Synced
    | Failed
    | MultiResult
)
