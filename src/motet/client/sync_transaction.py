"""A transaction without an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from motet.client.change import Change, OwnChange
from motet.client.portal import Portal
from motet.client.rows import Key, Row
from motet.client.transaction import AsyncTransaction, RowOp
from motet.core.clock.hlc import Clock
from motet.ids import TransactionId


class Transaction:
    """One transaction, for the length of a ``with`` block."""

    def __init__(self, portal: Portal, inner: AsyncTransaction) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def id(self) -> TransactionId:
        return self._inner.id

    @property
    def clock(self) -> Clock | None:
        """Its commit clock, once it is committed; None also if users get to see none."""
        return self._inner.clock

    def get(self, stream: str, key: Key) -> Change | OwnChange | None:
        """The latest change of a key: our own if there is one, else the latest committed one.

        None if it never had one. The answer stays the same within the transaction, and the commit is
        refused if it is no longer true by then.
        """
        return self._portal.call(self._inner.get, stream, key)

    def commit_clock(self) -> Clock | None:
        """Fix the clock that the transaction will have if it is committed, and take no more changes.

        None if users get to see no clocks (``clock.enabled``); it is fixed all the same.
        Everything that it has read and changed is locked from here on until the block is left, so leave it
        soon: a transaction that is not committed within a second or so is given up (``Conflict``).
        """
        return self._portal.call(self._inner.commit_clock)

    def change(
        self,
        stream: str,
        key: Key,
        op: RowOp,
        row: Row | None = None,
        before: Row | None = None,
    ) -> None:
        """Insert, update or delete a key when the block is left. ``before`` is carried along as it is.

        Rows of a typed stream that do not fit its schema are a ``BadSchema``.
        """
        if self._inner.is_new(stream):
            self._portal.call(self._inner.look_for, stream)
        self._inner.change(stream, key, op, row, before)

    def carry(self, change: Change) -> None:
        """Repeat a change of another database as it is, a raw entry too."""
        self._inner.carry(change)

    def __enter__(self) -> Self:
        self._inner.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._portal.call(self._inner.commit)
        else:
            self._portal.call(self._inner.abort)

    def __repr__(self) -> str:
        return repr(self._inner)
