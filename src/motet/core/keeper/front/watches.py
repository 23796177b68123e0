"""Watches: who wants to hear what happens to a node next.

T1  A watch fires once. It belongs to a connection, and ends with it.
T2  A *data* watch is set by get_data and by exists, also on a node that is still to come; it hears of the
    node being created, changed and deleted. A *child* watch is set by get_children; it hears of children that
    come and go, and of the node being deleted.
T3  To a connection that has both on a node, its deletion is one event.
T4  A watch is set in the same step as its read, from the same state: whatever is applied after that fires it.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from motet.format.zookeeper.messages import (
    ErrorCode,
    EventType,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    Stat,
    WatchEvent,
)
from motet.format.zookeeper.records import AnyRequest
from motet.ids import Address


class WatchKind(IntEnum):
    """What it hears of (T2)."""

    DATA = 1
    CHILD = 2


_FIRED: dict[int, tuple[WatchKind, ...]] = {
    EventType.CREATED: (WatchKind.DATA,),
    EventType.CHANGED: (WatchKind.DATA,),
    EventType.DELETED: (WatchKind.DATA, WatchKind.CHILD),
    EventType.CHILD: (WatchKind.CHILD,),
}

_Watchers = dict[Address, None]  # a dict for its order


class Watches(msgspec.Struct):
    """All of one front end."""

    by_path: dict[tuple[WatchKind, str], _Watchers] = {}
    by_connection: dict[Address, dict[tuple[WatchKind, str], None]] = {}
    count: int = 0

    def set(self, kind: WatchKind, path: str, address: Address) -> None:
        watchers = self.by_path.setdefault((kind, path), {})
        if address not in watchers:
            watchers[address] = None
            self.by_connection.setdefault(address, {})[kind, path] = None
            self.count += 1

    def fire(self, event: WatchEvent) -> list[Address]:
        """Who is to be told, each once; they watch no longer (T1, T3)."""
        told: _Watchers = {}
        for kind in _FIRED.get(event.type, ()):
            watchers = self.by_path.pop((kind, event.path), None)
            if watchers is None:
                continue
            for address in watchers:
                self._forget_one(address, kind, event.path)
            told.update(watchers)
        return list(told)

    def _forget_one(self, address: Address, kind: WatchKind, path: str) -> None:
        own = self.by_connection[address]
        del own[kind, path]
        self.count -= 1
        if not own:
            del self.by_connection[address]

    def forget(self, address: Address) -> None:
        """The connection is over (T1)."""
        for place in self.by_connection.pop(address, {}):
            watchers = self.by_path[place]
            del watchers[address]
            self.count -= 1
            if not watchers:
                del self.by_path[place]


def watch_wanted(request: AnyRequest) -> tuple[WatchKind, str] | None:
    """The watch that a read asks for."""
    if isinstance(request, GetData | Exists) and request.watch:
        return WatchKind.DATA, request.path
    if isinstance(request, GetChildren | GetChildren2) and request.watch:
        return WatchKind.CHILD, request.path
    return None


def is_watch_set(request: AnyRequest, error: int) -> bool:
    """Does a read with this error leave its watch behind? Only exists can wait for a node to come."""
    return error == ErrorCode.OK or (isinstance(request, Exists) and error == ErrorCode.NO_NODE)


# Watches of before


class Missed(msgspec.Struct, frozen=True):
    """What a look at one node says: it is not there, or what it is, or it must not be looked at."""

    is_there: bool
    stat: Stat | None = None


def missed_data(node: Missed, since_zxid: int) -> EventType | None:
    """What a data watch of a client that has seen ``since_zxid`` has missed."""
    if not node.is_there:
        return EventType.DELETED
    is_same = node.stat is not None and node.stat.mzxid <= since_zxid
    return None if is_same else EventType.CHANGED


def missed_exists(node: Missed) -> EventType | None:
    """The same of one that waits for the node to come."""
    return EventType.CREATED if node.is_there else None


def missed_child(node: Missed, since_zxid: int) -> EventType | None:
    """The same of a child watch."""
    if not node.is_there:
        return EventType.DELETED
    is_same = node.stat is not None and node.stat.pzxid <= since_zxid
    return None if is_same else EventType.CHILD
