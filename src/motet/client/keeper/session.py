"""A session with a keeper, over one connection after the other.

A session is the server's: it lives as long as somebody is heard of it within its timeout. A client that has
lost its connection asks the next server for the same session, by its number and password.

S1  What is asked in one turn of the event loop goes out in one write, and any number of calls is in flight.
S2  When a connection is lost, reads in flight are asked again over the next one, before what was asked
    later. Writes in flight are ``OutcomeUnknown``. What was not sent waits.
S3  A new connection is told who we are and what we watch before anything else is asked.
S4  Only a server can say that a session has expired. Then everything that waits, and everything asked
    later, is ``SessionExpired``, until a new session is begun.
S5  A read that must be as new as its question, of a server that answers with what it has, goes out behind
    a sync in the same write. One sync does for all reads of a write, for each was asked before it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

from motet.client.keeper.call import READS, Call
from motet.client.keeper.connection import Connection
from motet.client.keeper.dialer import Connect, Dialer
from motet.client.keeper.errors import SessionExpired, error_for
from motet.client.keeper.watches import WATCH_LOST, Watcher, Watches
from motet.errors import BadFrame, BadInput, MotetError, NodeError, TooLarge
from motet.format.zookeeper.codec import ReplyHeader, encode_request
from motet.format.zookeeper.messages import (
    AnyResult,
    Auth,
    CloseSession,
    ErrorCode,
    Failed,
    Request,
    SetWatches,
    Sync,
    WatchEvent,
)
from motet.format.zookeeper.records import (
    AUTH_XID,
    NO_SESSION,
    PASSWORD_BYTES,
    SET_WATCHES_XID,
    ConnectReply,
    ConnectRequest,
)
from motet.ids import Zxid

_xid_max = (1 << 31) - 2  # the last one is what some clients close their session with
_zxid_max = (1 << 63) - 1
_write_bytes_max = 1 << 20
_dead_calls_max = 256


class Session:
    """Owns the connection, what waits to be sent, and the watches."""

    def __init__(
        self,
        endpoints: Sequence[tuple[str, int]],
        timeout_ms: int,
        *,
        request_bytes_max: int,
        needs_sync: bool,
        connect: Connect | None = None,
    ) -> None:
        self._wanted_timeout_ms = timeout_ms
        self._request_bytes_max = request_bytes_max
        self._needs_sync = needs_sync
        self._dialer = Dialer(endpoints, connect)
        self._life: asyncio.Task[None] | None = None
        self._xid = 0
        self._has_begun = asyncio.Event()
        self._is_pump_due = False
        self._is_closing = False
        self._connection: Connection | None = None
        #: to be sent, in their order; some whose caller has gone may be among them
        self._wanted: deque[Call] = deque()
        self._dead_calls = 0
        self._watches = Watches()
        self._identities: list[Auth] = []
        #: why nothing can be asked
        self._over: MotetError | None = NodeError("the client has not begun", hint="async with")
        self._forget_session()

    def _forget_session(self) -> None:
        self.number = NO_SESSION
        self.timeout_ms = self._wanted_timeout_ms
        self._password = bytes(PASSWORD_BYTES)
        self._last_zxid = 0

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_expired(self) -> bool:
        return isinstance(self._over, SessionExpired)

    # From its beginning to its end

    async def begin(self, limit_seconds: float) -> None:
        """Find a server and have a new session; ``NodeError`` if none gives one in time."""
        self._forget_session()
        self._over, self._is_closing = None, False
        self._has_begun.clear()
        self._life = asyncio.create_task(self._live())
        try:
            async with asyncio.timeout(limit_seconds):
                await self._has_begun.wait()
        except TimeoutError:
            hint = "check the addresses, and that a majority of the servers runs"
            what = f"no session at {self._dialer} within {limit_seconds:g} s"
            error = NodeError(f"{what} ({self._dialer.problem})", hint=hint)
            await self._stop(error)
            raise error from None
        except BaseException:
            await self._stop(_closed())
            raise

    async def begin_anew(self, limit_seconds: float) -> None:
        """After an expiry, a new session; while the old one lives, nothing."""
        while self.is_expired:
            if self._life is not None and not self._life.done():
                await asyncio.wait([self._life])  # it has nothing to do any more
                continue
            await self.begin(limit_seconds)

    async def close(self, limit_seconds: float) -> None:
        """End the session, after all that was asked before. Without a connection it is left to expire."""
        self._is_closing = True
        if self._over is None and self._connection is not None:
            with contextlib.suppress(MotetError):  # it expires by itself
                await self.ask(CloseSession(), limit_seconds)
        await self._stop(_closed())

    async def _stop(self, why: MotetError) -> None:
        self._end(why)
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait([self._life])

    def _end(self, why: MotetError) -> None:
        """Nothing can be asked any more (S4)."""
        self._over = why
        if self._connection is not None:
            self._connection.lose(why.what)
        wanted, self._wanted = self._wanted, deque()
        for call in wanted:
            call.fail(_again(why))
        self._lose_watches()

    # Asking

    async def ask(
        self, request: Request, limit_seconds: float, watcher: Watcher | None = None
    ) -> AnyResult:
        """What the server answers; an error of its is raised."""
        return (await self.ask_at(request, limit_seconds, watcher))[1]

    async def ask_at(
        self, request: Request, limit_seconds: float, watcher: Watcher | None = None
    ) -> tuple[Zxid, AnyResult]:
        """The same, with the zxid of its moment."""
        if self._over is not None:
            raise _again(self._over)
        loop = asyncio.get_running_loop()
        call = self._call(request)
        call.watcher = watcher
        call.future = loop.create_future()
        call.needs_sync = self._needs_sync and isinstance(request, READS)
        self._wanted.append(call)
        self._pump_soon()
        alarm = loop.call_later(limit_seconds, self._too_late, call, limit_seconds)
        try:
            result = await call.future
            assert call.zxid is not None, "an answer has its moment"
            return call.zxid, result
        finally:
            alarm.cancel()
            if not call.is_sent:
                self._bury()

    async def watch_children(self, path: str, watcher: Watcher, limit_seconds: float) -> Zxid:
        """Watch the names below a node from now on: what was before fires nothing, but that it is not there.

        The names themselves do not come along. A watch that is set by reading them costs as much as they do.
        """
        self._watches.add_to_children(path, watcher)  # it may fire before the answer comes
        try:
            zxid, _ = await self.ask_at(SetWatches(_zxid_max, (), (), (path,)), limit_seconds)
        except MotetError:
            self._watches.remove_from_children(path, watcher)
            raise
        return zxid

    def _call(self, request: Request) -> Call:
        if isinstance(request, Auth):
            xid = AUTH_XID
        elif isinstance(request, SetWatches):
            xid = SET_WATCHES_XID
        else:
            xid = self._xid = self._xid % _xid_max + 1
        try:
            frame = encode_request(xid, request)
        except BadFrame as error:
            raise BadInput(error.what, hint=error.advice) from None
        if len(frame) > self._request_bytes_max:
            what = f"a request of {len(frame)} bytes exceeds the limit of {self._request_bytes_max}"
            raise TooLarge(what)
        return Call(xid, request, frame)

    def _too_late(self, call: Call, limit_seconds: float) -> None:
        what = f"no answer within {limit_seconds:g} s"
        if self._connection is None:
            what = f"no connection within {limit_seconds:g} s ({self._dialer.problem})"
        call.lose(what, "check that a majority of the servers runs, and try again")

    def _bury(self) -> None:
        """A caller went before his call did: they are not to gather while there is no connection."""
        self._dead_calls += 1
        if self._dead_calls > _dead_calls_max and 2 * self._dead_calls > len(self._wanted):
            self._wanted = deque(call for call in self._wanted if call.is_waited_for)
            self._dead_calls = 0

    def _pump_soon(self) -> None:
        """Once all that is ready to run has said what it wants (S1)."""
        if not self._is_pump_due and self._connection is not None:
            self._is_pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        connection = self._connection
        while self._wanted and connection is not None and connection.is_writable:
            batch = self._next_batch()
            if batch:
                connection.send(batch)

    def _next_batch(self) -> list[Call]:
        batch: list[Call] = []
        size_bytes = 0
        is_synced = False
        while self._wanted and size_bytes < _write_bytes_max:
            call = self._wanted.popleft()
            if not call.is_waited_for:
                continue
            if call.needs_sync and not is_synced:
                batch.append(self._call(Sync("/")))  # S5
                is_synced = True
            call.is_sent = True
            batch.append(call)
            size_bytes += len(call.frame)
        return batch

    # The connection

    async def _live(self) -> None:
        """One connection after the other."""
        while self._over is None and not self._is_closing:
            connection = await self._dialer.dial(self._hello(), self.timeout_ms, self)
            if connection is not None:
                await self._dialer.outlive(connection)
            if self._over is None:
                await self._dialer.pause()

    def _hello(self) -> ConnectRequest:
        return ConnectRequest(
            protocol=0,
            last_zxid=self._last_zxid,
            timeout_ms=self._wanted_timeout_ms,
            session=self.number,
            password=self._password,
            read_only=False,
        )

    def greeted(self, connection: Connection, reply: ConnectReply) -> None:
        if reply.timeout_ms <= 0:
            if self.number == NO_SESSION:
                connection.lose("the server gave no session")
            else:
                self._end(SessionExpired(SessionExpired.says))
                connection.lose("the session has expired")
            return
        self.number, self._password = reply.session, reply.password
        self.timeout_ms = reply.timeout_ms
        self._connection = connection
        connection.keep_alive(reply.timeout_ms)
        prepare: list[Request] = [*self._identities, *self._watches.set_again(self._last_zxid)]
        if prepare:
            connection.send([self._call(each) for each in prepare])  # S3
        self._has_begun.set()
        self._pump_soon()

    def writable(self) -> None:
        self._pump()

    def lost(self, connection: Connection, unanswered: list[Call], why: str) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        again: list[Call] = []
        for call in unanswered:
            if call.is_write:
                call.lose(why)
            elif self._over is not None:
                call.fail(_again(self._over))
            elif call.is_waited_for:
                call.is_sent = False
                again.append(call)
        self._wanted.extendleft(reversed(again))  # S2

    # Answers

    def answered(self, call: Call, header: ReplyHeader, result: AnyResult) -> None:
        self._last_zxid = max(self._last_zxid, header.zxid)
        call.zxid = Zxid(header.zxid)
        error = result.error if isinstance(result, Failed) else 0
        if isinstance(call.request, Auth):
            self._remember(call.request, is_taken=not error)
        if call.future is None:
            self._prepared(call, error)
            return
        if call.watcher is not None and call.is_waited_for and error in (0, ErrorCode.NO_NODE):
            self._watches.add(call.request, call.watcher, is_there=not error)
        if not error:
            call.settle(result)
            return
        call.fail(error_for(error, call.request, is_write=call.is_write, zxid=call.zxid))
        if error == ErrorCode.SESSION_EXPIRED:
            self._end(SessionExpired(SessionExpired.says))

    def _prepared(self, call: Call, error: int) -> None:
        """What the session asked on its own behalf was answered."""
        if error and isinstance(call.request, Sync) and self._connection is not None:
            # The reads behind it may be old, so they are asked again.
            self._connection.lose(f"the server refused a sync with error {error}")
        elif error and isinstance(call.request, SetWatches):
            self._lose_watches()

    def _remember(self, identity: Auth, *, is_taken: bool) -> None:
        """An identity belongs to a connection: the next one is told again, but not what was refused."""
        if not is_taken:
            self._identities = [each for each in self._identities if each != identity]
        elif identity not in self._identities:
            self._identities.append(identity)

    def happened(self, event: WatchEvent) -> None:
        for watcher in self._watches.take(event):
            _tell(watcher, event)

    def _lose_watches(self) -> None:
        for path, watcher in self._watches.take_all():
            _tell(watcher, WatchEvent(WATCH_LOST, path))


def _tell(watcher: Watcher, event: WatchEvent) -> None:
    try:
        watcher(event)
    except Exception as error:  # his own affair, but somebody should hear of it
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "a watcher raised", "exception": error})


def _again(error: MotetError) -> MotetError:
    """The same once more: an error that is raised is not raised again for somebody else."""
    return type(error)(error.what, hint=error.advice)


def _closed() -> NodeError:
    return NodeError("the client is closed", hint="make a new one")
