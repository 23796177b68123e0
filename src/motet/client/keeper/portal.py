"""The keeper's client without an event loop: the same calls, each waiting for its coroutine in the portal.

Nothing is decided here. It may be used from many threads at once.

A watcher is called in the thread of the portal, and must not call the keeper from there: it would wait for
itself. A :class:`ThreadWatch` lets any other thread wait for it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from motet.client.keeper.client import (
    OPEN,
    KeeperClient,
    Operation,
    Outcome,
    Read,
    ReadOperation,
)
from motet.client.keeper.watches import Watcher
from motet.client.portal import Portal
from motet.format.zookeeper.answers import Stat, WatchEvent
from motet.format.zookeeper.requests import ANY_VERSION, Acl


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


class Keeper:
    """One session with a keeper; made by :func:`connect`. It ends with its process at the latest."""

    def __init__(self, portal: Portal, inner: KeeperClient) -> None:
        self._portal = portal
        self._inner = inner
        # Also called when we are forgotten, and at the end of the process.
        self._end = weakref.finalize(self, portal.close, inner.close)

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes. A second time is fine."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def renew(self) -> None:
        """Begin a new session after the old one has expired; while that lives, nothing happens."""
        self._portal.call(self._inner.renew)

    @property
    def session(self) -> int:
        """Its number, which ephemeral nodes have in their stat."""
        return self._inner.session

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    @property
    def is_expired(self) -> bool:
        return self._inner.is_expired

    # Writes

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        acl: Sequence[Acl] = OPEN,
        ephemeral: bool = False,
        sequential: bool = False,
        seconds: float | None = None,
    ) -> str:
        """Make a node; its path, which for a sequential one has a number at the end."""
        return self._portal.call(
            self._inner.create,
            path,
            data,
            acl=acl,
            ephemeral=ephemeral,
            sequential=sequential,
            seconds=seconds,
        )

    def create2(
        self,
        path: str,
        data: bytes = b"",
        *,
        acl: Sequence[Acl] = OPEN,
        ephemeral: bool = False,
        sequential: bool = False,
        seconds: float | None = None,
    ) -> tuple[str, Stat]:
        """Make a node; its path and its stat."""
        return self._portal.call(
            self._inner.create2,
            path,
            data,
            acl=acl,
            ephemeral=ephemeral,
            sequential=sequential,
            seconds=seconds,
        )

    def delete(
        self, path: str, version: int = ANY_VERSION, *, seconds: float | None = None
    ) -> None:
        self._portal.call(self._inner.delete, path, version, seconds=seconds)

    def set(
        self, path: str, data: bytes, version: int = ANY_VERSION, *, seconds: float | None = None
    ) -> Stat:
        """Give a node other data; its stat."""
        return self._portal.call(self._inner.set, path, data, version, seconds=seconds)

    def set_acl(
        self,
        path: str,
        acl: Sequence[Acl],
        version: int = ANY_VERSION,
        *,
        seconds: float | None = None,
    ) -> Stat:
        """``version`` is that of the ACL: ``stat.aversion``."""
        return self._portal.call(self._inner.set_acl, path, acl, version, seconds=seconds)

    def multi(
        self, operations: Sequence[Operation], *, seconds: float | None = None
    ) -> list[Outcome]:
        """All of these at once, or none: then ``KeeperMultiFailed`` says which one was refused, and why."""
        return self._portal.call(self._inner.multi, operations, seconds=seconds)

    def ensure_path(
        self, path: str, *, acl: Sequence[Acl] = OPEN, seconds: float | None = None
    ) -> None:
        """Have this node and all above it; those that are there stay as they are."""
        self._portal.call(self._inner.ensure_path, path, acl=acl, seconds=seconds)

    # Reads

    def exists(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> Stat | None:
        """The stat of a node, None if there is none; a watch is set in either case."""
        return self._portal.call(self._inner.exists, path, watch, seconds=seconds)

    def get(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[bytes, Stat]:
        """The data of a node and its stat. Without a node no watch is set."""
        return self._portal.call(self._inner.get, path, watch, seconds=seconds)

    def children(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> list[str]:
        """The names of the children of a node, in no order."""
        return self._portal.call(self._inner.children, path, watch, seconds=seconds)

    def children2(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[list[str], Stat]:
        """The names of the children of a node, and its stat."""
        return self._portal.call(self._inner.children2, path, watch, seconds=seconds)

    def get_acl(self, path: str, *, seconds: float | None = None) -> tuple[tuple[Acl, ...], Stat]:
        return self._portal.call(self._inner.get_acl, path, seconds=seconds)

    def multi_read(
        self, reads: Sequence[str | ReadOperation], *, seconds: float | None = None
    ) -> list[Read]:
        """All of these as at one moment, each with its own fate; a path alone stands for its data."""
        return self._portal.call(self._inner.multi_read, reads, seconds=seconds)

    def sync(self, path: str = "/", *, seconds: float | None = None) -> None:
        """Wait until the server at hand has all that was done before."""
        self._portal.call(self._inner.sync, path, seconds=seconds)

    def add_auth(self, scheme: str, auth: bytes, *, seconds: float | None = None) -> None:
        """Be this identity too, from now on and over every connection of the session."""
        self._portal.call(self._inner.add_auth, scheme, auth, seconds=seconds)


def connect(endpoints: str, **options: Any) -> Keeper:
    """A session at ``host:port,host:port``; the options are those of :class:`KeeperClient`."""
    portal = Portal(f"the keeper at {endpoints}")
    try:
        inner = KeeperClient(endpoints, **options)
        portal.call(inner.__aenter__)
        return Keeper(portal, inner)
    except BaseException:
        portal.close()
        raise
