"""A client's link to nodes: requests out, answers back, many under way at once.

An answer is matched to its request by the ``request`` number inside the message. A request without an
answer in time ends as ``OutcomeUnknown``: the node may have done it, or may do it yet. The same holds for
what is under way when the link ends, or the connection to its node is lost. What never left, because the
node cannot be reached at all, is a ``NodeError``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from motet.core.machine import Message
from motet.errors import BadFrame, BadInput, MotetError, NodeError, OutcomeUnknown
from motet.format.frame import Frame, FrameDecoder
from motet.ids import Address
from motet.limits import batch_bytes_max, hello_body_bytes_max, inbox_messages_max
from motet.ports import Network
from motet.real.hello import decode_hello
from motet.real.network import TcpNetwork

doubt_seconds = 0.25
"""After so long without an answer it is asked whether it is worth waiting on."""

IsWorth = Callable[[], Awaitable[bool]]
never = float("inf")

Awaited = TypeVar("Awaited")


class Waiter(Generic[Awaited]):
    """Somebody who waits for an answer."""

    __slots__ = ("deadline", "doubts_at", "future", "is_worth", "looking", "node")

    def __init__(
        self,
        node: Address,
        future: asyncio.Future[Awaited],
        deadline: float,
        doubts_at: float,
        is_worth: IsWorth | None,
    ) -> None:
        self.node = node
        self.future = future
        self.deadline = deadline
        self.doubts_at = doubts_at
        self.is_worth = is_worth
        self.looking: asyncio.Task[None] | None = None

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Patience(Generic[Awaited]):
    """Gives up on answers: in time, or when they are not worth waiting for any more.

    One timer for all that is waited for, set for whoever is due next: nearly all answers come long before
    anybody doubts, and cost nothing here but a place in a dict.
    """

    def __init__(self) -> None:
        #: request -> who waits for its answer
        self.waiters: dict[int, Waiter[Awaited]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = never

    def begin(
        self,
        request: int,
        node: Address,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        is_worth: IsWorth | None,
    ) -> asyncio.Future[Awaited]:
        """From here on time counts."""
        future: asyncio.Future[Awaited] = loop.create_future()
        now = loop.time()
        deadline = now + seconds
        doubts_at = never if is_worth is None else now + doubt_seconds
        self.waiters[request] = Waiter(node, future, deadline, doubts_at, is_worth)
        due = min(deadline, doubts_at)
        if due < self._alarm_at:
            self._ring_by(loop, due)
        return future

    def end(self, request: int) -> Waiter[Awaited] | None:
        """There is an answer, or nobody waits for it; whoever waited for it."""
        waiter = self.waiters.pop(request, None)
        if waiter is not None and waiter.looking is not None:
            waiter.looking.cancel()
        return waiter

    def stop(self) -> None:
        """Nobody waits any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm, self._alarm_at = None, never

    def _ring_by(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if due < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = due
            self._alarm = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        now, due = loop.time(), never
        self._alarm, self._alarm_at = None, never
        for request, waiter in list(self.waiters.items()):
            if waiter.future.done():  # whoever waited was cancelled
                self.end(request)
                continue
            if waiter.deadline <= now:
                self.end(request)
                waiter.fail(TimeoutError())
                continue
            if waiter.doubts_at <= now:
                waiter.doubts_at = never
                waiter.looking = loop.create_task(self._look(waiter))
            due = min(due, waiter.deadline, waiter.doubts_at)
        if due < never:
            self._ring_by(loop, due)

    async def _look(self, waiter: Waiter[Awaited]) -> None:
        assert waiter.is_worth is not None
        try:
            if await waiter.is_worth():
                loop = asyncio.get_running_loop()
                waiter.doubts_at = loop.time() + doubt_seconds
                self._ring_by(loop, waiter.doubts_at)
            else:
                what = "no answer came, and that node is not the one any more"
                waiter.fail(OutcomeUnknown(what))
        except MotetError as error:
            waiter.fail(error)


answer_seconds_max = 5.0
"""How long an answer is waited for unless told otherwise."""

together_max = 32
"""Requests of one turn that leave together. Were it all of them, a client with many callers and its nodes
would take turns: one works while the others wait."""

ZOOKEEPER_PORT_OFFSET = 1
HTTP_PORT_OFFSET = 3
"""Ports count up from a node's base: native at +0, ZooKeeper's wire at +1, HTTP at +3."""

Answer = TypeVar("Answer", bound=Message)


class ClientNetwork(Network, Protocol):
    """A network with a beginning and an end, as a client sees it."""

    async def start(self) -> None:
        """From here on frames can be sent."""

    async def stop(self) -> None:
        """Nothing comes and goes any more."""


MakeNetwork = Callable[[Callable[[], None]], ClientNetwork]
"""Makes a network that calls this function when something has arrived."""


def parse_endpoint(text: str) -> tuple[str, int]:
    """``host:port`` in its two parts; ``BadInput`` when it is something else."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise BadInput(f"{text!r} is not an endpoint", hint="write it as 127.0.0.1:7400")
    return host.removeprefix("[").removesuffix("]"), int(port)  # an IPv6 host stands in brackets


async def greeting_of(host: str, port: int, seconds: float) -> tuple[int, ...]:
    """The kinds of frames that are taken there; none when it is no node of ours that listens."""
    reader, writer = await _dial(host, port, seconds)
    decoder = FrameDecoder()
    try:
        async with asyncio.timeout(seconds):
            while data := await reader.read(hello_body_bytes_max):
                if frames := decoder.feed(data):
                    hello = decode_hello(frames[0])
                    return () if hello is None else hello.takes
    except (OSError, BadFrame):  # a time that ran out among them
        pass
    finally:
        writer.close()
    return ()


async def _dial(
    host: str, port: int, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.open_connection(host, port)
    except OSError as error:
        raise NodeError(
            f"nothing answers at {host}:{port} ({error.strerror or str(error) or 'silence'})",
            hint="check the address, and that what should serve there is running",
        ) from None


class Link(Generic[Answer]):
    """Requests to one kind of machine on some nodes; use it as ``async with``.

    The nodes are reached over TCP, unless ``network`` makes another one: then they need no endpoints.
    """

    def __init__(
        self,
        nodes: Mapping[Address, str],
        kind: int,
        answers: object,
        cluster: str = "motet",
        network: MakeNetwork | None = None,
    ) -> None:
        self._endpoints = {node: parse_endpoint(text) for node, text in nodes.items()}
        self._kind = kind
        self._encode = msgspec.msgpack.Encoder().encode
        #: ``answers`` is the tagged union of the messages that may come back
        self._decode: Callable[[bytes], Answer] = msgspec.msgpack.Decoder(answers).decode
        self._network: ClientNetwork = (network or self._tcp_network(cluster))(self._take)
        self._requests = 0
        #: why nothing can be asked any more
        self._over: NodeError | None = None
        self._is_flush_due = False
        #: asked, and not flushed
        self._gathered = 0
        self._patience: Patience[Answer] = Patience()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._network.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(NodeError("the link to the node is closed", hint="make a new one"))
        await self._network.stop()
        self._patience.stop()

    def end(self, why: NodeError) -> None:
        """Ask nothing any more. Of what is under way it is unknown whether it was done."""
        self._over = self._over or why
        for waiter in self._patience.waiters.values():
            waiter.fail(OutcomeUnknown(f"no answer came: {why.what}"))

    async def idle(self, seconds: float) -> None:
        """Wait until all that was asked up to now has been answered, but no longer than this."""
        waiting = [waiter.future for waiter in self._patience.waiters.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=seconds)

    async def ask(
        self,
        node: Address,
        make: Callable[[int], Message],
        seconds: float = answer_seconds_max,
        is_worth_waiting: Callable[[], Awaitable[bool]] | None = None,
        times: int = 1,
    ) -> Answer:
        """Send the message that ``make`` builds for a request number; wait for its answer.

        ``is_worth_waiting`` is asked now and then while none comes: whether that node is still the one. The
        very same message is sent so many times, if no answer comes within ``seconds`` each: only for
        questions that change nothing. A node that works on it still does so once.
        """
        request, body = self._message(make)
        for left in reversed(range(times)):
            try:
                return await self._send(node, request, body, seconds, is_worth_waiting)
            except TimeoutError:
                if not left:
                    what = f"{node} did not answer within {seconds * times:g} s"
                    raise OutcomeUnknown(what) from None
        raise AssertionError("it is sent at least once")

    def begin(
        self,
        node: Address,
        make: Callable[[int], Message],
        seconds: float,
        is_worth_waiting: Callable[[], Awaitable[bool]] | None = None,
    ) -> asyncio.Future[Answer]:
        """What ``ask`` does, for who is no task: the future ends as ``ask`` would, if in ``TimeoutError``."""
        request, body = self._message(make)
        return self._send(node, request, body, seconds, is_worth_waiting)

    def _message(self, make: Callable[[int], Message]) -> tuple[int, bytes]:
        """A message with a number of its own."""
        self._requests += 1
        return self._requests, self._encode(make(self._requests))

    def _send(
        self,
        node: Address,
        request: int,
        body: bytes,
        seconds: float,
        is_worth_waiting: Callable[[], Awaitable[bool]] | None,
    ) -> asyncio.Future[Answer]:
        if self._over is not None:
            raise NodeError(self._over.what, hint=self._over.advice)
        if not self._network.send(node, Frame(self._kind, 0, body)):
            raise NodeError(f"too much is waiting to be sent to {node}", hint="slow down")
        future = self._patience.begin(request, node, self._loop, seconds, is_worth_waiting)
        if len(body) > batch_bytes_max:
            self._network.flush()  # a large one gains nothing by waiting for others
        else:
            self._flush_soon()
        return future

    def flush(self) -> None:
        """Send what was begun, now: nothing else is to go with it."""
        self._network.flush()

    def _flush_soon(self) -> None:
        """What is asked in one turn of the loop leaves together, but no more than the nodes can use."""
        self._gathered += 1
        if self._gathered >= together_max:
            self._network.flush()
            self._gathered = 0
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        self._gathered = 0
        self._network.flush()

    def learn(self, node: Address, endpoint: str) -> None:
        """Know where a node is, or that it has moved; for links over TCP."""
        place = parse_endpoint(endpoint)
        if self._endpoints.get(node) != place:
            self._endpoints[node] = place
            if isinstance(self._network, TcpNetwork):
                self._network.add_peer(node, place)

    def _tcp_network(self, cluster: str) -> MakeNetwork:
        return lambda wake: TcpNetwork(
            None,
            cluster=cluster,
            listen=None,
            peers=self._endpoints,
            wake=wake,
            unreached=self._unreached,
        )

    def _unreached(self, node: Address, had_left: bool) -> None:
        for request, waiter in list(self._patience.waiters.items()):
            if waiter.node != node:
                continue
            self._patience.end(request)
            if had_left:
                waiter.fail(OutcomeUnknown(f"the connection to {node} was lost"))
            else:
                hint = "is it running, and a node of this cluster? `motet status` tells"
                waiter.fail(NodeError(f"{node} cannot be reached", hint=hint))

    def _take(self) -> None:
        """Something has arrived: at once, for somebody waits for it."""
        for delivery in self._network.take(inbox_messages_max):
            if delivery.frame.kind == self._kind:
                self._answered(delivery.frame.body)

    def _answered(self, body: bytes) -> None:
        answer = self._decode(body)
        waiter = self._patience.end(getattr(answer, "request", -1))
        if waiter is not None and not waiter.future.done():
            waiter.future.set_result(answer)
