"""What a ZooKeeper client can ask for, one type per operation, under the names of the protocol.

They are what the codec makes of the bytes of a request, and what the keeper's state machine takes: nothing
translates between the two. Each type knows its number on the wire (``OPCODES``).

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
