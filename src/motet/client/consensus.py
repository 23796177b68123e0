"""The client of a consensus cluster: calls from anywhere in a program, in few requests.

::

    async with ConsensusClient(config, {"r0": "127.0.0.1:7500", ...}) as client:
        [stored] = await client.call([Put(b"key", b"value")])
        [found] = await client.call([Get(b"key")])

A session has one request in flight. While it waits, what others want gathers, and goes out together with the
next request of whichever session is free first: many callers, few prepares. The calls of one ``call`` stay
together and are done at once, in their order, or not at all.

A request is sent again until it is answered, to one replica after the other, and done once. A caller waits
only so long:

Q1  What was sent and not answered in time is ``OutcomeUnknown``: it may have been done, or may be yet.
Q2  What was never sent is ``NodeError``: it is not done, and will not be.
Q3  A session that was evicted leaves what it had in flight unknown, and is replaced by a new one.

``read_barrier`` asks which op a state must have applied, to be read now: reading without writing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from motet.client.consensus_session import Batch, Session, Wanted
from motet.client.link import answer_seconds_max, parse_endpoint
from motet.core.machine import Message
from motet.core.vsr.client import ReadAt, Replied
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.key_value import Call, Get, Result, encode_calls
from motet.core.vsr.messages import Eviction, PongClient, ReadPoint, Reply
from motet.errors import BadInput, NodeError, OutcomeUnknown, TooLarge
from motet.format.frame import Frame, FrameKind
from motet.ids import Address, Op
from motet.limits import inbox_messages_max
from motet.real.entropy import RealEntropy
from motet.real.network import TcpNetwork
from motet.real.time import RealTime

sessions_default = 4
_body_overhead_bytes = 8
"""What a body has beyond its calls: how many they are."""

_result_bytes_max = 16
"""A result without its value, as the state machine reckons it."""

T = TypeVar("T")

Answer = PongClient | Reply | Eviction | ReadPoint
_decode = msgspec.msgpack.Decoder(Answer).decode
_encode = msgspec.msgpack.Encoder().encode


def cluster_name(cluster: int) -> str:
    """What replicas and clients of a cluster call it in their greeting."""
    return f"vsr-{cluster:x}"


class ConsensusClient:
    """Some sessions of one cluster; use it as ``async with``."""

    def __init__(
        self,
        config: VsrConfig,
        endpoints: Mapping[Address, str],
        *,
        sessions: int = sessions_default,
        seconds: float = answer_seconds_max,
        is_reserved: bool = False,
    ) -> None:
        if tuple(endpoints) != config.replicas:
            raise BadInput("these endpoints are not of the replicas", hint="name all, in order")
        if sessions < 1:
            raise BadInput(f"{sessions} sessions", hint="have at least one")
        self._config = config
        self._seconds = seconds
        self._wanted: deque[Wanted] = deque()
        self._barriers: list[asyncio.Future[Op]] = []
        self._is_pump_due = False
        self._over: str | None = None
        self._network = TcpNetwork(
            None,
            cluster=cluster_name(config.cluster),
            listen=None,
            peers={name: parse_endpoint(text) for name, text in endpoints.items()},
            wake=self._take,
        )
        entropy, time = RealEntropy(), RealTime()
        self._sessions = [
            Session(config, self._post, self._pump_soon, entropy, time, is_reserved=is_reserved)
            for _ in range(sessions)
        ]
        #: how many requests were answered, and how many calls were in them
        self.requests_answered = 0
        self.calls_answered = 0

    async def __aenter__(self) -> Self:
        await self._network.start()
        for session in self._sessions:
            session.begin()
        self._network.flush()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = "the client is closed"
        for session in self._sessions:
            session.end(self._over)
        for wanted in self._wanted:
            _fail(wanted.future, NodeError(self._over, hint="make a new one"))
        for barrier in self._barriers:
            _fail(barrier, NodeError(self._over, hint="make a new one"))
        await self._network.stop()

    @property
    def view(self) -> int:
        """The newest view that any session has heard of."""
        return max(session.view for session in self._sessions)

    # Asking

    async def call(self, calls: Sequence[Call], seconds: float | None = None) -> list[Result]:
        """Have these done at once, in their order; one result for each."""
        self._check_open()
        if not calls:
            return []
        wanted = self._want(calls)
        self._wanted.append(wanted)
        self._pump_soon()
        limit = self._seconds if seconds is None else seconds
        try:
            return await _within(limit, wanted.future)
        except TimeoutError:
            if wanted.is_sent:
                raise OutcomeUnknown(f"no answer within {limit:g} s") from None  # Q1
            raise NodeError(
                f"no session had room within {limit:g} s; nothing was asked",  # Q2
                hint="check that a majority of the replicas runs, and try again",
            ) from None

    async def read_barrier(self, seconds: float | None = None) -> Op:
        """The op that a state must have applied to be as new as this question."""
        self._check_open()
        barrier: asyncio.Future[Op] = asyncio.get_running_loop().create_future()
        self._barriers.append(barrier)
        self._pump_soon()
        limit = self._seconds if seconds is None else seconds
        try:
            return await _within(limit, barrier)
        except TimeoutError:
            raise NodeError(f"no primary answered within {limit:g} s", hint="try again") from None

    def _check_open(self) -> None:
        if self._over is not None:
            raise NodeError(self._over, hint="make a new one")

    def _want(self, calls: Sequence[Call]) -> Wanted:
        body = encode_calls(calls)
        size_bytes = len(body)
        if size_bytes > self._body_bytes_max or len(calls) > self._calls_max:
            raise TooLarge(
                f"{len(calls)} calls of {size_bytes} bytes are too many for one request",
                hint=f"at most {self._body_bytes_max} bytes and {self._calls_max} calls at once",
            )
        reads = list(map(type, calls)).count(Get)
        return Wanted(
            body=body,
            count=len(calls),
            is_reading=reads == len(calls),
            # What is read may be left out of a reply that is full. Reads are then asked again,
            # which reads that belong to writes cannot be: those share their reply with nobody.
            is_alone=0 < reads < len(calls),
            future=asyncio.get_running_loop().create_future(),
        )

    @property
    def _body_bytes_max(self) -> int:
        return self._config.body_bytes_max - _body_overhead_bytes

    @property
    def _calls_max(self) -> int:
        return self._config.body_bytes_max // _result_bytes_max - 1

    # Requests

    def _pump_soon(self) -> None:
        """Once all that is ready to run has said what it wants."""
        if not self._is_pump_due and self._over is None:
            self._is_pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        if self._over is not None:
            return
        for session in self._sessions:
            self._take_result(session)
            if not session.is_idle:
                continue
            # Taking turns, so that neither kind waits for ever for the other.
            is_barrier_next = bool(self._barriers) and not (session.asked_barrier and self._wanted)
            if is_barrier_next:
                barriers, self._barriers = self._barriers, []
                session.ask_barrier([each for each in barriers if not each.done()])
            elif self._wanted:
                batch = self._next_batch()
                if batch:
                    session.ask(batch)
        self._network.flush()

    def _next_batch(self) -> Batch:
        batch: Batch = []
        size_bytes = calls = 0
        while self._wanted:
            wanted = self._wanted[0]
            if wanted.future.done():
                self._wanted.popleft()  # its caller has gone
                continue
            size_bytes += len(wanted.body)
            calls += wanted.count
            is_full = size_bytes > self._body_bytes_max or calls > self._calls_max
            if batch and (is_full or wanted.is_alone):
                break
            self._wanted.popleft()
            batch.append(wanted)
            if wanted.is_alone:
                break
        return batch

    def _take_result(self, session: Session) -> None:
        result = session.take_result()
        if isinstance(result, Replied):
            self.requests_answered += 1
            left_out = session.hand_out(result)
            self.calls_answered += session.last_count
            self._wanted.extendleft(reversed(left_out))
        elif isinstance(result, ReadAt):
            session.hand_out_barrier(result.op)

    # The network

    def _post(self, to: Address, message: Message) -> None:
        self._network.send(to, Frame(FrameKind.VSR, 0, _encode(message)))

    def _take(self) -> None:
        """Something has arrived: at once, for somebody waits for it."""
        for delivery in self._network.take(inbox_messages_max):
            if delivery.frame.kind != FrameKind.VSR:
                continue
            try:
                answer = _decode(delivery.frame.body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # not for clients
            for session in self._sessions:
                if session.is_for(answer):
                    session.hear(delivery.sender, answer)
        if self._over is None:
            self._pump()


async def _within(limit_seconds: float, future: asyncio.Future[T]) -> T:
    """What comes of it, or ``TimeoutError``: a timer alone, a third of what ``asyncio.timeout`` costs."""
    alarm = asyncio.get_running_loop().call_later(limit_seconds, _ring, future)
    try:
        return await future
    finally:
        alarm.cancel()


def _ring(future: asyncio.Future[T]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _fail(future: asyncio.Future[list[Result]] | asyncio.Future[Op], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
