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

from motet.client.patience import Patience
from motet.core.machine import Message
from motet.errors import BadFrame, BadInput, NodeError, OutcomeUnknown
from motet.format.frame import Frame, FrameDecoder
from motet.ids import Address
from motet.limits import batch_bytes_max, hello_body_bytes_max, inbox_messages_max
from motet.ports import Network
from motet.real.hello import decode_hello
from motet.real.network import TcpNetwork

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


def unanswered(node: Address, seconds: float) -> OutcomeUnknown:
    """Nobody knows whether it was done."""
    return OutcomeUnknown(f"{node} did not answer within {seconds:g} s")


async def reach(host: str, port: int, seconds: float) -> None:
    """``NodeError`` when nothing listens there: nothing was asked yet."""
    _, writer = await _dial(host, port, seconds)
    writer.close()


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

    async def reach(self, node: Address, seconds: float = answer_seconds_max) -> None:
        """``NodeError`` when nothing listens where the node should be: nothing was asked yet."""
        await reach(*self._endpoints[node], seconds)

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
                    raise unanswered(node, seconds * times) from None
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
            assert isinstance(self._network, TcpNetwork)
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
