"""The database without an event loop: the same calls, each waiting for its coroutine in the portal.

Nothing is decided here. A database and its streams may be used from many threads at once; a transaction
belongs to one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from motet.client import connect as connecting
from motet.client.change import Change
from motet.client.database import AsyncDatabase
from motet.client.feed import Page, Tail
from motet.client.feed_face import page_limit_default
from motet.client.feed_split import FeedPlan
from motet.client.feed_status import FeedStatus
from motet.client.part_store import PartsLocator
from motet.client.portal import Portal
from motet.client.publication import Publication
from motet.client.rows import Key
from motet.client.snapshot import Snapshot
from motet.client.sync_keeping import SyncKeeping
from motet.client.sync_stream import Stream
from motet.client.sync_table import Table
from motet.client.sync_transaction import Transaction
from motet.client.tables import Consistency
from motet.client.transaction import (
    TransactionStatus,
    attempts_default,
    pauses_seconds,
)
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import FeedSplit, StreamInfo
from motet.core.tables.messages import TableInfo, WriterInfo
from motet.core.tables.records import Engine, StagedPart, WriterStep
from motet.errors import Conflict, MotetError
from motet.real.entropy import RealEntropy

__all__ = ["Database", "Transaction", "connect"]

T = TypeVar("T")


class Database(SyncKeeping):
    """A database; made by ``motet.open`` or ``motet.connect``. It ends with its process at the latest."""

    _inner: AsyncDatabase

    def __init__(self, portal: Portal, inner: AsyncDatabase) -> None:
        self._portal = portal
        self._inner = inner
        # Also called when we are forgotten, and at the end of the process.
        self._end = weakref.finalize(self, portal.close, inner.close)

    @property
    def endpoint(self) -> str:
        """Where other processes reach it; an embedded one serves from the first time it is asked."""
        return self._portal.call(self._inner.endpoint)

    def close(self) -> None:
        """Let what is under way be answered, and end; a second time is fine."""
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

    def __repr__(self) -> str:
        return repr(self._inner)

    def create_stream(
        self,
        name: str,
        schema: object | None = None,
        shards: int = 4,
        replicas: int | None = None,
    ) -> Stream:
        """Create a stream; the same once more is fine, another one of that name is ``StreamExists``."""
        inner = self._portal.call(self._inner.create_stream, name, schema, shards, replicas)
        return Stream(self, self._portal, inner)

    def stream(self, name: str) -> Stream:
        """A stream by its name; whether there is one shows when it is used."""
        return Stream(self, self._portal, self._inner.stream(name))

    def delete_stream(self, name: str) -> None:
        """Delete a stream of a cluster, with all its data."""
        self._portal.call(self._inner.delete_stream, name)

    def streams(self) -> list[StreamInfo]:
        """All streams, by name, with their shards and how many entries these have."""
        return self._portal.call(self._inner.streams)

    def transaction(self) -> Transaction:
        """A transaction: ``with db.transaction() as txn``. Leaving the block commits it."""
        return Transaction(self._portal, self._inner.transaction())

    def transact(self, run: Callable[[Transaction], T], attempts: int = attempts_default) -> T:
        """Run a function in a transaction, again from its start when it met a ``Conflict``."""
        for pause_seconds in pauses_seconds(attempts, RealEntropy()):
            try:
                return self._attempt(run)
            except Conflict:
                self._portal.call(self._inner.pause, pause_seconds)
        return self._attempt(run)

    def _attempt(self, run: Callable[[Transaction], T]) -> T:
        with self.transaction() as txn:
            return run(txn)

    def transaction_status(self, transaction: str) -> TransactionStatus:
        """What became of a transaction; ``OutcomeUnknown`` while a shard that may know cannot be asked."""
        return self._portal.call(self._inner.transaction_status, transaction)

    def transaction_changes(self, transaction: str) -> list[Change]:
        """The changes of a transaction; none if it is not committed, or if they are pruned.

        Also of one that has no clock for its readers: it has its place in the feed.
        """
        return self._portal.call(self._inner.transaction_changes, transaction)

    def clock(self) -> Clock:
        """The highest clock handed out."""
        return self._portal.call(self._inner.clock)

    def clock_enabled(self) -> bool:
        """The setting ``clock.enabled``: whether users get to see clocks of what is committed now."""
        return self._portal.call(self._inner.clock_enabled)

    def enable_clock(self, enabled: bool = True) -> None:
        """Set ``clock.enabled``, for everybody.

        While it is off, ``txn.clock`` and the clocks of changes are None. Order, locks, the feed and its
        cursors go on; and what is committed after it is on again is above everything before.
        """
        self._portal.call(self._inner.enable_clock, enabled)

    def bookmark(self) -> str:
        """What this client has seen and done, as a text: ``connect(..., after=bookmark)`` goes on behind it.

        Whoever does reads what was written here and nothing older than what was read here, and writes at
        higher clocks.
        """
        return self._portal.call(self._inner.bookmark)

    def visible_clock(self, *streams: str, wait: bool = False) -> Clock:
        """No change of these streams at or below this clock appears any more.

        With ``wait``, one that everything committed before the call is at or below.
        """
        return self._portal.call(self._inner.visible_clock, *streams, wait=wait)

    def changes(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        up_to: Clock | None = None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> Page:
        """The next page of the feed of these streams: whole transactions, in the order of their clocks.

        A page may be longer than ``limit`` when its only transaction is. It begins behind a cursor or a
        clock, so long ago (``last``), or with ``after="oldest"`` where all of the streams have their feed;
        with none of these at the beginning, or ``CursorExpired`` if not all are there from the same clock
        on. With a key it has the changes of this key alone.
        """
        return self._portal.call(
            self._inner.changes,
            *streams,
            after=after,
            limit=limit,
            up_to=up_to,
            key=key,
            last=last,
        )

    def oldest(self, *streams: str) -> Clock:
        """Behind this clock all of these streams have their feed: none of it is pruned; zero: all of it."""
        return self._portal.call(self._inner.oldest, *streams)

    def feed_status(self, *streams: str) -> FeedStatus:
        """How far each shard of these streams is closed, and what holds the visible clock back."""
        return self._portal.call(self._inner.feed_status, *streams)

    def split_feed(
        self,
        *streams: str,
        after: str | Clock | None = None,
        up_to: Clock | None = None,
        changes_max: int | None = None,
        stretches: int = 1,
    ) -> FeedSplit:
        """Where to cut the feed behind a cursor or a clock: for readers side by side, or bit by bit."""
        return self._portal.call(
            self._inner.split_feed,
            *streams,
            after=after,
            up_to=up_to,
            changes_max=changes_max,
            stretches=stretches,
        )

    def feed_plan(
        self,
        streams: Sequence[str],
        after: str | Clock | None = None,
        max_changes: int | None = None,
        stretches: int = 1,
        up_to: Clock | None = None,
    ) -> FeedPlan:
        """A slice of the feed with at most so many changes, or one transaction, cut for several readers."""
        return self._portal.call(
            self._inner.feed_plan, streams, after, max_changes, stretches, up_to
        )

    def tail(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        stop_after: int | None = None,
        key: Key | None = None,
        last: timedelta | None = None,
    ) -> Iterator[Change]:
        """All changes of these streams, for ever: until the database is closed, or so many have come."""
        # Not the generator itself: bad input is to be told now, not when the first change is wanted.
        return self._follow(self._inner.follow(streams, after, limit, stop_after, key, last))

    def _follow(self, tail: Tail) -> Iterator[Change]:
        while True:
            try:
                changes = self._portal.call(tail.next_changes)
            except MotetError:
                if not self._end.alive:
                    return
                raise
            if not changes:
                return
            yield from changes

    def create_table(
        self,
        name: str,
        schema: object,
        order_by: Sequence[str],
        shards: int = 1,
        replicas: int | None = None,
        engine: Engine = "merge",
        version: str | None = None,
        tombstone: str | None = None,
    ) -> Table:
        """Create a table; the same once more is fine, another one of that name is ``TableExists``.

        ``merge`` keeps all rows; ``replacing`` keeps of each key (``order_by``) the row with the highest
        ``version``, or the last one, and none if that says true in its ``tombstone`` column.
        """
        create = self._inner.create_table
        inner = self._portal.call(
            create, name, schema, order_by, shards, replicas, engine, version, tombstone
        )
        return Table(self, self._portal, inner)

    def table(self, name: str) -> Table:
        """A table by its name; whether there is one shows when it is used."""
        return Table(self, self._portal, self._inner.table(name))

    def tables(self) -> list[TableInfo]:
        """All tables, by name, with their size."""
        return self._portal.call(self._inner.tables)

    def stage(self, table: str, data: object) -> list[StagedPart]:
        """Write rows as parts of a table that nobody sees before they are published."""
        return self._portal.call(self._inner.stage, table, data)

    def publish(
        self,
        parts: Sequence[StagedPart | Sequence[StagedPart]],
        *,
        token: str | tuple[str, int] | None = None,
        step: WriterStep | None = None,
    ) -> Publication:
        """Make staged parts of any tables visible, all at once or not at all.

        With a writer's step also only if it is the next one of that writer: ``WriterFenced`` if not; one
        that was done already changes nothing.
        """
        return self._portal.call(self._inner.publish, parts, token=token, step=step)

    def snapshot(self, *tables: str, at: Clock | None = None) -> Snapshot:
        """Some tables at one clock: now, or one that is visible."""
        return self._portal.call(self._inner.snapshot, *tables, at=at)

    def sql(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        consistency: Consistency = "sequential",
        at: Clock | None = None,
        timeout: float | None = None,
        memory_bytes: int | None = None,
    ) -> Any:
        """Ask in SQL (DuckDB's), all tables at one clock; a ``pyarrow.Table``.

        ``QueryStopped`` after so many seconds (an hour), or if it needs more memory than that (half of what
        the machine has).
        """
        return self._portal.call(
            self._inner.sql, query, parameters, consistency, at, timeout, memory_bytes
        )

    def parts_locator(self) -> PartsLocator:
        """From where another process opens the files of the tables; can be pickled."""
        return self._portal.call(self._inner.parts).locator()

    @property
    def database_id(self) -> int:
        """Its own number: a cursor or a checkpoint of another one is refused."""
        return self._inner.database_id

    def writer(self, name: str) -> WriterInfo | None:
        """How far an ordered writer is; None if it has never published or said anything."""
        return self._portal.call(self._inner.writer, name)

    def writers(self) -> list[WriterInfo]:
        """All ordered writers, by name."""
        return self._portal.call(self._inner.writers)

    def note_writer(self, name: str, error: str) -> None:
        """Remember an ordered writer's last error; empty when all is well."""
        self._portal.call(self._inner.note_writer, name, error)


def connect(endpoint: str | None = None, after: str | None = None) -> Database:
    """The database at an endpoint: the first of a comma separated list that answers.

    Without one, at ``$MOTET_ENDPOINT``. With a bookmark, whatever its client has seen or done is seen here
    too.
    """
    portal = Portal(endpoint or "a connection")
    try:
        return Database(portal, portal.call(connecting.connect, endpoint, after))
    except BaseException:
        portal.close()
        raise
