"""Transactions: what was read and what is to be changed, gathered here and sent as one request.

Nothing is sent before the block is left but the reads. What they saw goes along with the changes, and
the node makes the changes only if it is still so; else ``Conflict``. Leaving the block by an exception sends
nothing, unless the clock was fixed within it: then all has been sent, and it is taken back.

A row is checked and encoded when it is handed in. If its stream is not known yet, which happens only when it
was created elsewhere since, that is done at the next read or at the end, still before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, get_args

import msgspec

from motet.client.calls import Calls, ToldClock
from motet.client.change import Change, OwnChange
from motet.client.rows import (
    Key,
    Row,
    Schemas,
    key_bytes,
    row_bytes,
    row_copy,
    stream_name,
    whole_number,
)
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import ClockReleased, GetLatest, KeyRead, Latest, ReleaseClock
from motet.core.streams.change import RowChange, Standing
from motet.errors import BadInput, BadSchema, Conflict, MotetError, OutcomeUnknown, TooLarge
from motet.ids import StreamName, TransactionId
from motet.limits import transaction_bytes_max, transaction_changes_max
from motet.ports import Entropy

RowOp = Literal["insert", "update", "delete"]
ROW_OPS = get_args(RowOp)

attempts_default = 30
attempts_max = 10_000
pause_ms_min, pause_ms_max = 1, 64
"""The longest pause after the first conflict, and after many."""


class TransactionStatus(msgspec.Struct, frozen=True):
    """What became of a transaction; ``unknown``: nothing is known of it, or nothing any more."""

    id: TransactionId
    standing: Standing
    #: its commit clock, if it is committed and users get to see it
    clock: Clock | None = None


class AsyncTransaction:
    """One transaction: ``async with db.transaction() as txn``."""

    id: TransactionId
    #: its commit clock, once it is committed; None also if users get to see none (``clock.enabled``)
    clock: Clock | None

    __slots__ = (
        "_begin",
        "_bytes",
        "_calls",
        "_changes",
        "_encoded_by",
        "_fixed",
        "_later",
        "_own",
        "_phase",
        "_reads",
        "_schemas",
        "clock",
        "id",
    )

    def __init__(
        self, calls: Calls, name: TransactionId, schemas: Schemas, begin: Clock = ZERO
    ) -> None:
        self.id = name
        #: its age, which it keeps however often it is tried: of rivals the older one goes first
        self._begin = begin
        self.clock = None
        self._calls = calls
        self._schemas = schemas
        self._phase: Literal["new", "open", "fixed", "over"] = "new"
        #: the clock that it will have, if that is fixed
        self._fixed: ToldClock | None = None
        #: what was read, in the order of reading
        self._reads: dict[tuple[StreamName, bytes], Change | None] = {}
        #: in order; None for what is still to be encoded
        self._changes: list[tuple[StreamName, RowChange] | None] = []
        #: the place of each of those -> what it is encoded from when the schema of its stream is known
        self._later: dict[int, tuple[StreamName, bytes, RowOp, Row | None, Row | None]] = {}
        #: the newest for each key, of those that are encoded
        self._own: dict[tuple[StreamName, bytes], RowChange] = {}
        #: the schema by which the rows of each stream are encoded
        self._encoded_by: dict[StreamName, bytes | None] = {}
        self._bytes = 0

    async def get(self, stream: str, key: Key) -> Change | OwnChange | None:
        """The latest change of a key: our own if there is one, else the latest committed one.

        None if it never had one. The answer stays the same within the transaction, and the commit is
        refused if it is no longer true by then.
        """
        self._check_begun()
        place = (stream_name(stream), key_bytes(key))
        await self._settle()
        if place in self._own:
            name = place[0]
            is_ours = name in self._encoded_by  # else it was carried
            schema = self._encoded_by[name] if is_ours else await self._schemas.of(name)
            return OwnChange(name, self._own[place], schema)
        if place not in self._reads:
            self._check_open()
            self._check_count()
            found = await self._calls.repeated(lambda n: GetLatest(n, *place), Latest)
            schema = await self._schemas.of(place[0])
            read = None if found.change is None else Change(found.change, schema)
            self._calls.clock_visibility.look_at(() if read is None else (read.raw,))
            self._reads.setdefault(place, read)  # another get of the same key may have been first
        return self._reads[place]

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
        if self._phase != "open":
            self._check_open()
        if op not in ROW_OPS:
            raise BadInput(f"{op!r} is not an operation", hint="use insert, update or delete")
        if (row is None) != (op == "delete"):
            raise BadInput("a delete has no row" if op == "delete" else f"an {op} needs a row")
        for data in (row, before):
            if data is not None and not isinstance(data, dict):
                raise BadInput(f"a row is a dict, not {type(data).__name__}")
        if len(self._reads) + len(self._changes) >= transaction_changes_max:
            self._check_count()
        is_known = type(stream) is str and self._schemas.knows(StreamName(stream))
        name = StreamName(stream) if is_known else stream_name(stream)
        kept = key_bytes(key)
        if not is_known and not self._schemas.knows(name):
            now, then = [None if data is None else row_copy(data) for data in (row, before)]
            self._later[len(self._changes)] = name, kept, op, now, then
            self._changes.append(None)
            return
        change = self._encoded(len(self._changes), name, kept, op, row, before)
        self._changes.append((name, change))
        self._own[name, kept] = change

    def carry(self, change: Change) -> None:
        """Repeat a change of another database as it is, a raw entry too.

        Its stream here has the same schema: that is for the caller to know.
        """
        self._check_open()
        self._check_count()
        raw = change.raw
        repeated = RowChange(len(self._changes), raw.key, raw.op, raw.row, raw.before)
        self._changes.append((raw.stream, self._counted(repeated)))

    # Asked by the face without an event loop, which can wait before it takes a change.

    def is_new(self, stream: str) -> bool:
        """Whether a stream has to be looked for before its rows can be checked at once."""
        self._check_open()
        return not self._schemas.knows(stream_name(stream))

    async def look_for(self, stream: str) -> None:
        """Get to know a stream, if there is one of that name."""
        await self._schemas.look_for(stream_name(stream))

    def _encoded(
        self,
        index: int,
        stream: StreamName,
        key: bytes,
        op: RowOp,
        row: Row | None,
        before: Row | None,
    ) -> RowChange:
        """The change as it is sent; ``BadSchema`` if a row is not as its stream wants it."""
        schema = self._schemas.known(stream)
        try:
            now = None if row is None else row_bytes(row, schema)
            then = None if before is None else row_bytes(before, schema)
        except BadSchema as error:
            raise BadSchema(f"stream {stream!r}: {error.what}") from None
        self._encoded_by[stream] = schema
        return self._counted(RowChange(index, key, op, now, then))

    def _counted(self, change: RowChange) -> RowChange:
        size_bytes = len(change.key) + len(change.row or b"") + len(change.before or b"")
        if self._bytes + size_bytes > transaction_bytes_max:
            raise TooLarge(f"a transaction has at most {transaction_bytes_max} bytes")
        self._bytes += size_bytes
        return change

    async def _settle(self) -> None:
        """Encode what had to wait for its stream to be known; ``NoSuchStream`` if it is not there."""
        if not self._later:
            return
        for stream in {stream: None for stream, *_ in self._later.values()}:
            await self._schemas.of(stream)
        # No await below: another get may be here at the same time.
        for place, asked in list(self._later.items()):
            if self._schemas.knows(asked[0]):
                self._changes[place] = asked[0], self._encoded(place, *asked)
                del self._later[place]
        for known in self._changes:
            if known is not None:
                self._own[known[0], known[1].key] = known[1]

    async def commit_clock(self) -> Clock | None:
        """Fix the clock that the transaction will have if it is committed, and take no more changes.

        None if users get to see no clocks (``clock.enabled``); it is fixed all the same.
        Everything that it has read and changed is locked from here on until the block is left, so leave it
        soon: a transaction that is not committed within a second or so is given up (``Conflict``).
        """
        self._check_begun()
        if self._fixed is not None:
            return self._shown(self._fixed)
        self._check_open()
        if not self._changes and not self._reads:
            raise BadInput("a transaction that has read and changed nothing has no clock")
        await self._settle()
        reads, changes = self._gathered()
        self._phase = "fixed"
        self._fixed = done = await self._calls.fix_clock(self.id, self._begin, reads, changes)
        return self._shown(done)

    def begin(self) -> None:
        """The block is entered."""
        if self._phase != "new":
            raise BadInput("a transaction is used once", hint="begin another one")
        self._phase = "open"

    async def abort(self) -> None:
        """The block is left by an exception: nothing is changed."""
        was_fixed, self._phase = self._phase == "fixed", "over"
        if was_fixed:
            with suppress(MotetError):  # then it is given up a little later
                await self._calls.once(lambda n: ReleaseClock(n, self.id), ClockReleased)

    async def commit(self) -> None:
        """The block is left. A transaction that has neither read nor changed anything has no clock."""
        if self._phase != "open":
            self._check_begun()
        was_fixed, self._phase = self._phase == "fixed", "over"
        if not self._changes and not self._reads:
            return
        if self._later:
            await self._settle()
        try:
            if was_fixed:
                done = await self._calls.commit_fixed(self.id)
            else:
                done = await self._calls.commit(self.id, self._begin, *self._gathered())
        except OutcomeUnknown as error:
            hint = f"ask db.transaction_status({self.id!r}) before you do it again"
            raise OutcomeUnknown(error.what, hint=hint) from None
        self.clock = self._shown(done)

    def _shown(self, told: ToldClock) -> Clock | None:
        return self._calls.clock_visibility.shown(told.clock, has_clock=told.has_clock)

    def _gathered(self) -> tuple[list[KeyRead], list[tuple[StreamName, RowChange]]]:
        """What was read and what is to be changed."""
        assert not self._later, "all are encoded"
        for stream, schema in self._encoded_by.items():
            if self._schemas.knows(stream) and self._schemas.known(stream) != schema:
                raise Conflict(f"stream {stream!r} was deleted and created again meanwhile")
        reads = [
            KeyRead(*place, None if seen is None else seen.raw.clock)
            for place, seen in self._reads.items()
        ]
        return reads, [change for change in self._changes if change is not None]

    async def __aenter__(self) -> Self:
        self.begin()
        return self

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Coroutine[Any, Any, None]:
        return self.commit() if kind is None else self.abort()

    def __repr__(self) -> str:
        state = f"at {self.clock}" if self.clock is not None else self._phase
        return f"<Transaction {self.id} {state}: {len(self._reads)} read, {len(self._changes)} changed>"

    def _check_open(self) -> None:
        self._check_begun()
        if self._phase == "fixed":
            raise BadInput(
                "the clock of the transaction is fixed",
                hint="read and change before commit_clock()",
            )

    def _check_begun(self) -> None:
        if self._phase == "new":
            raise BadInput(
                "the transaction has not begun", hint="use it as `with db.transaction() as txn:`"
            )
        if self._phase == "over":
            raise BadInput("the transaction is over", hint="begin another one")

    def _check_count(self) -> None:
        if len(self._reads) + len(self._changes) >= transaction_changes_max:
            raise TooLarge(f"a transaction has at most {transaction_changes_max} reads and changes")


class Attempts:
    """Decides for whoever runs a function in a transaction, and again while that meets a ``Conflict``.

    The function itself runs where its caller is: in an event loop, or in a thread without one.
    """

    def __init__(
        self, begin: Callable[[], AsyncTransaction], attempts: int, entropy: Entropy
    ) -> None:
        self._begin = begin
        self._left = whole_number("attempts", attempts, 1, attempts_max)
        self._entropy = entropy
        self._longest_ms = pause_ms_min

    def transaction(self) -> AsyncTransaction:
        """The next one."""
        return self._begin()

    def pause_seconds(self, conflict: Conflict) -> float:
        """How long to wait after a conflict, at random, so that rivals part; the last one is raised."""
        self._left -= 1
        if not self._left:
            raise conflict
        longest_ms = self._longest_ms
        self._longest_ms = min(2 * longest_ms, pause_ms_max)
        return self._entropy.nonce() % (longest_ms * 1000) / 1e6
