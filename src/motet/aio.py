"""The same database for asyncio: whatever waits is a coroutine.

::

    async with motet.aio.open("data/") as db:
        await db.create_stream("orders")
        async with db.transaction() as txn:
            left = await txn.get("stock", "s-9")
            txn.change("orders", key="o-1", op="insert", row={"sku": "s-9"})
        async for change in db.tail("orders"):
            ...

``open`` and ``connect`` can be awaited as well: ``db = await motet.aio.open("data/")``; then close it with
``await db.close()``. An embedded database lives in the event loop that opened it, and syncs its log there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any

from motet.client import connect as connecting
from motet.client.database import AsyncDatabase as Database
from motet.client.stream import AsyncStream as Stream
from motet.client.transaction import AsyncTransaction as Transaction
from motet.embedded import open_async

__all__ = ["Database", "Opening", "Stream", "Transaction", "connect", "open"]


class Opening:
    """A database that is about to be opened: await it, or use it as ``async with``."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Database]]) -> None:
        self._begin = begin
        self._database: Database | None = None

    def __await__(self) -> Generator[Any, None, Database]:
        return self._begin().__await__()

    async def __aenter__(self) -> Database:
        self._database = await self._begin()
        return self._database

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._database is not None
        await self._database.close()


def open(path: str | os.PathLike[str]) -> Opening:  # noqa: A001
    """Open the database in a folder, in this event loop; a folder that is not there is made."""
    return Opening(lambda: open_async(path))


def connect(endpoint: str | None = None, after: str | None = None) -> Opening:
    """The database at an endpoint: the first of a comma separated list that answers.

    With a bookmark, whatever its client has seen or done is seen here too.
    """
    return Opening(lambda: connecting.connect(endpoint, after))
