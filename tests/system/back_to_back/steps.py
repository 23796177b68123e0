"""The stream: what is done next, drawn from a seed.

A few names in few places, so that most of what is asked for meets something: nodes that are there and nodes
that are not, watches that fire and sessions that end while others look at what they had made. What was made
(sequential names) and seen (versions) is given back by whoever does the steps, which both servers agree on up
to the first difference: a seed is the whole stream.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from motet.format.zookeeper.messages import (
    ANY_VERSION,
    Acl,
    Auth,
    Check,
    Create,
    Create2,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    Request,
    SetAcl,
    SetData,
    Sync,
)
from motet.sim.dice import Dice

CLIENTS = 4

BY_DESIGN = {
    "the root itself": "a ZooKeeper keeps its own affairs in /zookeeper; our root is empty at first",
    "reads of the empty path": "ZooKeeper 3.9.5 takes it for the root",
    "create2 in a multi": "ZooKeeper 3.9.5 answers it under the opcode of a create",
    "ACLs of the scheme ip, and that identity": "a session of ours may speak from anywhere",
    "exists of a node that may not be read": "ZooKeeper 3.8 tells its stat to all; 3.9 and ours refuse",
    "events of a node that may not be read": "newer ZooKeepers keep them back; ours tells",
    "the order of what `auth` stands for": "ZooKeeper 3.9.5 has another order than add_auth",
    "containers, nodes with a time to live": "they are answered as not implemented",
    "a check outside of a multi": "ZooKeeper 3.9.5 gave no answer to one that succeeds",
    "the order of events at the end of a session": "no order is promised; they are sorted",
}
"""What is not compared, and why. The stream has none of it, or it is sorted."""

USERS = (b"ann:one", b"bob:two")


def digest_of(user: bytes) -> str:
    return f"{user.partition(b':')[0].decode()}:" + base64.b64encode(
        hashlib.sha1(user, usedforsecurity=False).digest()
    ).decode("ascii")


OPEN = (Acl(31, "world", "anyone"),)
"""Everybody may do everything."""

_ACLS: tuple[tuple[Acl, ...], ...] = (
    (Acl(1, "world", "anyone"),),
    (Acl(31 - 8, "world", "anyone"),),
    (Acl(31 - 4, "world", "anyone"), Acl(31, "digest", digest_of(USERS[0]))),
    (Acl(31, "digest", digest_of(USERS[0])), Acl(1, "world", "anyone")),
    (Acl(31, "digest", digest_of(USERS[1])),),
    (Acl(31, "auth", ""),),
    (Acl(31, "auth", "ignored"), Acl(1, "world", "anyone")),
    (*OPEN, *OPEN),
    (Acl(0, "world", "anyone"),),
    (Acl(16 + 1, "world", "anyone"),),
)
_BAD_ACLS: tuple[tuple[Acl, ...], ...] = (
    (),
    (Acl(31, "world", "somebody"),),
    (Acl(31, "nonsense", "x"),),
    (Acl(31, "digest", "nocolon"),),
    (Acl(31, "digest", "a:b:c"),),
    (*OPEN, Acl(1, "", "")),
)
_DATA = (None, b"", b"x", b"some more", b"much" * 20)
_BAD_ENDS = (
    "/",
    "//x",
    "/.",
    "/..",
    "/./x",
    "/../x",
    "/a\0",
    "/\1",
    "/\x7f",
    "/\x9f",
    "/x/",
    "/\ue000",
)
_BAD_PATHS = ("", "x", "x/y", ".", "//")
_ODD_ENDS = ("/ü", "/...", "/.x", "/ ", "/日本", "/-", "/\u2028", "/a:b")


@dataclass(frozen=True)
class Ask:
    """A client asks for something."""

    client: int
    request: Request


@dataclass(frozen=True)
class Open:
    """A client begins a session."""

    client: int


@dataclass(frozen=True)
class Close:
    """A client ends its session."""

    client: int


@dataclass(frozen=True)
class GoAway:
    """A client loses its connection."""

    client: int


@dataclass(frozen=True)
class ComeBack:
    """It has one again, and watches what it watched."""

    client: int


Step = Ask | Open | Close | GoAway | ComeBack


class Author:
    """Writes the stream below one node, a step at a time."""

    def __init__(self, seed: int, root: str) -> None:
        self._dice = Dice(seed, "back-to-back")
        self.root = root
        #: paths that were created, the latest last
        self.made: list[str] = []
        #: path -> the version that was last seen
        self.versions: dict[str, int] = {}
        self._here: list[int] = []
        self._away: dict[int, int] = {}
        self._numbers = 0
        #: paths on which a watch was set, the latest last
        self._watched: list[str] = []
        #: how the paths begin of nodes that not everybody may read
        self._private: list[str] = []

    def next_step(self) -> Step:
        if len(self._here) == 1 and len(self.made) < 2:  # with a child that stays, so does it
            path = f"{self.root}/stays" if self.made else self.root
            return Ask(self._here[0], Create(path, b"", OPEN, 0))
        if len(self._here) + len(self._away) < CLIENTS:
            client = min(set(range(CLIENTS)) - set(self._here) - set(self._away))
            self._here.append(client)
            return Open(client)
        for client in list(self._away):
            self._away[client] -= 1
            if self._away[client] < 0:
                del self._away[client]
                self._here.append(client)
                return ComeBack(client)
        client = self._dice.pick(self._here)
        chance = self._dice.between(0, 99)
        if chance < 2:
            self._here.remove(client)
            return Close(client)
        if chance < 5 and len(self._here) > 1:
            self._here.remove(client)
            self._away[client] = self._dice.between(0, 8)
            return GoAway(client)
        return Ask(client, self._request())

    def _request(self) -> Request:
        kinds: tuple[tuple[int, Callable[[], Request]], ...] = (
            (22, self._create),
            (10, self._delete),
            (12, self._set_data),
            (5, self._set_acl),
            (12, self._multi),
            (3, self._multi_read),
            (32, self._read),
            (3, self._auth),
        )
        point = self._dice.between(0, sum(weight for weight, _ in kinds) - 1)
        for weight, make in kinds:
            if point < weight:
                return make()
            point -= weight
        raise AssertionError("the weights were summed up")

    # What requests are made of

    def _path(self) -> str:
        """Of a node that may be there."""
        chance = self._dice.between(0, 99)
        if chance < 2:
            return self._dice.pick(_BAD_PATHS)
        if chance < 5:
            return self._dice.pick((self.root, self._place())) + self._dice.pick(_BAD_ENDS)
        if chance < 7:
            return self.root + self._dice.pick(_ODD_ENDS)
        if chance < 27 and self._watched:
            return self._dice.pick(self._watched[-6:])
        if chance < 60:
            return self._dice.pick(self.made[-10:])
        if chance < 64:
            return self.root
        place = self._place()
        return place if chance < 82 else f"{place}/{self._dice.pick('xyz')}"

    def _readable(self) -> str:
        return self._path() or self.root

    def _place(self) -> str:
        return f"{self.root}/{self._dice.pick('abc')}"

    def _version(self, path: str) -> int:
        chance = self._dice.between(0, 9)
        if chance < 6:
            return ANY_VERSION
        if chance < 8:
            return self.versions.get(path, 0)
        return self._dice.pick((0, 1, 2, 99, -2, -(1 << 31), (1 << 31) - 1))

    def _acl(self, path: str) -> tuple[Acl, ...]:
        chance = self._dice.between(0, 19)
        if chance < 13 or path == self.root:
            return OPEN
        acl = self._dice.pick(_ACLS if chance < 19 else _BAD_ACLS)
        if any(each.scheme == "world" and each.permissions & 1 for each in acl):
            return acl
        if any(watched.startswith(path) for watched in self._watched):
            return OPEN
        self._private.append(path)
        return acl

    def _watch(self, path: str) -> bool:
        """Whether to watch it."""
        if path.startswith(tuple(self._private)) or self._dice.chance(0.4):
            return False
        self._watched.append(path)
        return True

    # Requests

    def _create(self) -> Create | Create2:
        create = self._create1()
        if self._dice.chance(0.5):
            return create
        return Create2(create.path, create.data, create.acl, create.flags)

    def _create1(self) -> Create:
        flags = self._dice.pick((0, 0, 0, 1, 2, 3))
        path = self._path()
        if flags & 2:
            path = self._dice.pick((f"{path}/", f"{path}/s-", path, f"{self._place()}/s-"))
            path = path if path.rfind("/") else f"{self._place()}/s-"  # not below the root itself
        elif self._dice.chance(0.1):
            self._numbers += 1
            path = f"{self.root}/n{self._numbers}"
        return Create(path, self._dice.pick(_DATA), self._acl(path), flags)

    def _delete(self) -> Delete:
        path = self._path()
        return Delete(path, self._version(path))

    def _set_data(self) -> SetData:
        path = self._path()
        return SetData(path, self._dice.pick(_DATA), self._version(path))

    def _set_acl(self) -> SetAcl:
        # Mostly of the latest: where nobody may do anything the stream runs dry.
        path = self._path() if self._dice.chance(0.2) else self.made[-1]
        return SetAcl(path, self._acl(path), self._dice.pick((-1, -1, 0, 1, 5)))

    def _check(self) -> Check:
        path = self._path()
        return Check(path, self._version(path))

    def _multi(self) -> Multi:
        """Some that work, and often one that does not, anywhere among them."""
        operations: list[Create | Delete | SetData | Check] = []
        makers: tuple[Callable[[], Create | Delete | SetData | Check], ...] = (
            self._create1,
            self._delete,
            self._set_data,
            self._check,
        )
        for _ in range(self._dice.between(0, 4)):
            self._numbers += 1
            path = f"{self.root}/m{self._numbers}"
            operations.append(Create(path, self._dice.pick(_DATA), OPEN, 0))
            if self._dice.chance(0.5):
                operations.append(SetData(path, b"again", 0))
            if self._dice.chance(0.3):
                operations.append(Check(path, self._dice.pick((0, 1))))
            if self._dice.chance(0.6):
                operations.append(Delete(path, ANY_VERSION))
        for _ in range(self._dice.between(0, 2)):
            place = self._dice.between(0, len(operations))
            operations.insert(place, self._dice.pick(makers)())
        return Multi(tuple(operations))

    def _multi_read(self) -> MultiRead:
        kinds: tuple[type[GetData] | type[GetChildren], ...] = (GetData, GetChildren)
        count = self._dice.between(0, 4)
        paths = [self._readable() for _ in range(count)]
        return MultiRead(tuple(self._dice.pick(kinds)(path, self._watch(path)) for path in paths))

    def _read(self) -> Request:
        path = self._readable()
        kind = self._dice.between(0, 9)
        if kind == 9:
            return self._dice.pick((GetAcl(path), Sync(path)))
        watch = self._watch(path)
        if kind < 3 and not path.startswith(tuple(self._private)):
            return Exists(path, watch)
        if kind < 6:
            return GetData(path, watch)
        return self._dice.pick((GetChildren, GetChildren2))(path, watch)

    def _auth(self) -> Auth:
        if self._dice.chance(0.2):
            return Auth("nonsense", b"x")
        return Auth("digest", self._dice.pick(USERS))
