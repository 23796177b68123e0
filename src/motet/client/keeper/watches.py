"""Watches: who is to be told when a node changes, once.

A watch is set by a read and lives on the server that answered it; here is who is told when it fires.

N1  A watch fires once. To go on watching, read again with a new one: what changed in between is read.
N2  Whoever watches is told before any answer that the server gave after the change.
N3  A connection that is lost takes no watch with it: the next server is told of all of them and of what
    we have seen last, and fires at once those that have missed something.
N4  A watch that cannot fire any more, because its session is over, is told so: an event of the type
    ``WATCH_LOST``.

A watcher is any function of one argument, or a :class:`Watch`, which can be awaited::

    watch = Watch()
    data, stat = await keeper.get("/a", watch=watch)
    event = await watch
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

from motet.errors import NodeError
from motet.format.zookeeper.messages import (
    EventType,
    Exists,
    GetChildren,
    GetChildren2,
    Request,
    SetWatches,
    WatchEvent,
)

Watcher = Callable[[WatchEvent], object]
"""Called in the event loop, in the middle of its work: be quick, and begin a task for what takes long."""

WATCH_LOST = -1
"""The type of an event that says: the session is over, and this watch will not fire."""

_set_watches_bytes_max = 128 << 10
"""How much of the paths goes into one message: a server refuses long ones."""

_path_overhead_bytes = 4


class Watch:
    """A watcher that can be awaited, by any number of tasks and also after it has fired."""

    def __init__(self) -> None:
        self._is_over = asyncio.Event()
        #: what happened, once it has
        self.event: WatchEvent | None = None

    def __call__(self, event: WatchEvent) -> None:
        if self.event is None:
            self.event = event
            self._is_over.set()

    def __await__(self) -> Generator[Any, None, WatchEvent]:
        return self.wait().__await__()

    async def wait(self) -> WatchEvent:
        """What happened; ``NodeError`` if the session ended before anything did."""
        await self._is_over.wait()
        event = self.event
        assert event is not None, "an event sets off the watch"
        if event.type == WATCH_LOST:
            raise NodeError(
                f"the watch of {event.path} is lost: its session is over",
                hint="read the node once more, with a new watch",
            )
        return event


_Table = dict[str, list[Watcher]]


class ThreadWatch:
    """A watcher that a thread can wait for."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._event: WatchEvent | None = None

    def __call__(self, event: WatchEvent) -> None:
        self._event = self._event or event
        self._is_over.set()

    def wait(self, seconds: float | None = None) -> WatchEvent | None:
        """What happened, or None if nothing did in this time. It may be a ``WATCH_LOST``."""
        self._is_over.wait(seconds)
        return self._event


class Watches:
    """All watches of one session, in the three kinds that the protocol has."""

    def __init__(self) -> None:
        #: path -> watchers; of nodes that were there
        self._data: _Table = {}
        #: path -> watchers; of nodes that were not there yet
        self._exists: _Table = {}
        #: path -> watchers; of the names of children
        self._children: _Table = {}

    def __len__(self) -> int:
        return sum(len(each) for table in self._tables for each in table.values())

    @property
    def _tables(self) -> tuple[_Table, _Table, _Table]:
        return self._data, self._exists, self._children

    def add(self, request: Request, watcher: Watcher, *, is_there: bool) -> None:
        """This read was answered: the watch is set if there is a node, or if the read was an exists."""
        if not is_there and not isinstance(request, Exists):
            return
        if isinstance(request, GetChildren | GetChildren2):
            table = self._children
        else:
            table = self._data if is_there else self._exists
        watchers = table.setdefault(_path(request), [])
        if watcher not in watchers:  # told once, however often he asked
            watchers.append(watcher)

    def add_to_children(self, path: str, watcher: Watcher) -> None:
        """He watches the names below a node, as ``SetWatches`` tells the server."""
        watchers = self._children.setdefault(path, [])
        if watcher not in watchers:
            watchers.append(watcher)

    def remove_from_children(self, path: str, watcher: Watcher) -> None:
        """The server could not be told."""
        watchers = [each for each in self._children.pop(path, ()) if each is not watcher]
        if watchers:
            self._children[path] = watchers

    def take(self, event: WatchEvent) -> list[Watcher]:
        """Whom to tell of this, each once; they are forgotten (N1)."""
        tables: tuple[_Table, ...] = ()
        if event.type in (EventType.CREATED, EventType.CHANGED):
            tables = (self._data, self._exists)
        elif event.type == EventType.DELETED:
            tables = self._tables
        elif event.type == EventType.CHILD:
            tables = (self._children,)
        watchers: list[Watcher] = []
        for table in tables:
            watchers += [each for each in table.pop(event.path, ()) if each not in watchers]
        return watchers

    def take_all(self) -> list[tuple[str, Watcher]]:
        """Everybody, with the path he watches; they are forgotten."""
        everybody = [
            (path, each) for table in self._tables for path in table for each in table[path]
        ]
        for table in self._tables:
            table.clear()
        return everybody

    def set_again(self, last_zxid: int) -> Iterator[SetWatches]:
        """What to ask of a new connection (N3), in messages that are not too long."""
        lists: tuple[list[str], list[str], list[str]] = ([], [], [])
        size_bytes = 0
        for paths, table in zip(lists, self._tables, strict=True):
            for path in table:
                size_bytes += len(path.encode()) + _path_overhead_bytes
                paths.append(path)
                if size_bytes >= _set_watches_bytes_max:
                    yield _set_watches(last_zxid, lists)
                    size_bytes = 0
        if size_bytes:
            yield _set_watches(last_zxid, lists)


def _set_watches(last_zxid: int, lists: tuple[list[str], list[str], list[str]]) -> SetWatches:
    data, exists, children = map(tuple, lists)
    for paths in lists:
        paths.clear()
    return SetWatches(last_zxid, data, exists, children)


def _path(request: Request) -> str:
    path: str = getattr(request, "path", "")
    return path
