"""What a ZooKeeper client is answered: errors by their numbers, stats, results and events.

The keeper's state machine makes these, the codec turns them into bytes, and the client's codec back.
"""

from __future__ import annotations

import enum

import msgspec

from motet.format.zookeeper.requests import Acl


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


# Results: the body behind a reply's header


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
    failed, its error, and ``RUNTIME_INCONSISTENCY`` behind it."""

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
