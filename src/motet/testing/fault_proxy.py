"""A TCP proxy that spoils connections: it delays, slows, swallows, cuts and refuses.

::

    with FaultProxy("127.0.0.1:7400") as proxy:
        connect(proxy.endpoint)             # instead of 127.0.0.1:7400
        proxy.delay(50, jitter_ms=20)       # from now on
        proxy.one_way("to_target")          # requests arrive, answers do not
        proxy.wait_until(lambda seen: seen.dropped_to_client_bytes > 0)
        proxy.heal()

The proxy runs in a thread with a loop of its own, so that it serves a plain test and one that runs inside
``asyncio.run`` alike. A change of mode is in force when the call returns, for all connections. Each mode
replaces the one before; ``set_mode`` combines faults.

Links between the nodes of a local cluster that can be cut, in one direction or both.

The links of some nodes go through a :class:`motet.testing.fault_proxy.FaultProxy` each way, one for each pair
of who dials and whom. Clients are not concerned: they reach the nodes past all proxies.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from motet.errors import BadInput
from motet.sim.dice import Dice
from motet.testing.proxy_lane import Direction, Lane, ProxyConnection, ProxyMode, close, reset

call_s_max = 10.0
"""How long the proxy's own thread may take to do as it is told."""


class ProxySeen(msgspec.Struct, frozen=True):
    """What a proxy has seen so far."""

    connections: int = 0
    #: connections that were reset as they came in
    refused: int = 0
    #: connections that came in and found no target
    unreachable: int = 0
    #: connections that were reset later on
    cut: int = 0
    passed_to_target_bytes: int = 0
    passed_to_client_bytes: int = 0
    dropped_to_target_bytes: int = 0
    dropped_to_client_bytes: int = 0
    #: ends of streams that were swallowed, either way: a side that thinks the other is still there
    dropped_ends: int = 0


class FaultProxy:
    """Listens on a free port of this machine, in front of ``target`` (``host:port``)."""

    def __init__(self, target: str, *, seed: int = 0) -> None:
        host, _, port = target.rpartition(":")
        if not host or not port.isdigit():
            raise BadInput(f"{target!r} is no target", hint="write it as host:port")
        self.target = (host, int(port))
        self.mode = ProxyMode()
        self.port = 0
        self._dice = Dice(seed, "fault-proxy")
        self._seen = ProxySeen()
        self._seen_changed = threading.Condition()
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)
        self._connections: dict[ProxyConnection, None] = {}
        self._serving: dict[asyncio.Task[None], None] = {}

    @property
    def endpoint(self) -> str:
        """Where to connect to instead of the target."""
        return f"127.0.0.1:{self.port}"

    # Modes

    def set_mode(self, mode: ProxyMode) -> None:
        """Put a mode into force. Connections that lost bytes are reset where bytes now pass again."""
        self._call(lambda: self._set_mode(mode))

    def heal(self) -> None:
        """Let everything pass."""
        self.set_mode(ProxyMode())

    def delay(self, delay_ms: int, *, jitter_ms: int = 0) -> None:
        """Hold each piece back so long, and up to ``jitter_ms`` longer. The order stays."""
        self.set_mode(ProxyMode(delay_ms=delay_ms, jitter_ms=jitter_ms))

    def slow(self, bytes_per_second: int) -> None:
        """Let no more than this pass, per connection and direction."""
        self.set_mode(ProxyMode(bytes_per_second=bytes_per_second))

    def drop(self) -> None:
        """Swallow everything both ways and say nothing: each side thinks the other is silent."""
        self.set_mode(ProxyMode(to_target=False, to_client=False))

    def one_way(self, direction: Direction) -> None:
        """Let bytes pass in this direction only."""
        back = direction == "to_client"
        self.set_mode(ProxyMode(to_target=not back, to_client=back))

    def refuse(self) -> None:
        """Reset every new connection at once; those that are there live on."""
        self.set_mode(ProxyMode(accepts=False))

    def cut(self) -> None:
        """Reset all connections now. The mode stays: the next ones pass as before."""
        self._call(self._cut_all)

    # Watching

    def seen(self) -> ProxySeen:
        """What has passed and what has not, up to now."""
        with self._seen_changed:
            return self._seen

    def wait_until(
        self, reached: Callable[[ProxySeen], bool], *, wait_s: float = 10.0
    ) -> ProxySeen:
        """Wait for the proxy to have seen something; ``TimeoutError`` tells what it saw instead."""
        with self._seen_changed:
            if not self._seen_changed.wait_for(lambda: reached(self._seen), wait_s):
                raise TimeoutError(f"not within {wait_s} s; the proxy has seen {self._seen}")
            return self._seen

    # Life

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(call_s_max)
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop.set)
        self._thread.join(call_s_max)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except OSError as error:  # no free port, say: whoever waits for the start is told
            self._started.set_exception(error)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._mode_changed = asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set_result(None)
        await self._stop.wait()
        server.close()
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = None
        self._see(connections=1)
        try:
            await self._relay(reader, writer)
        finally:
            del self._serving[task]
            await close(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.mode.accepts:
            self._see(refused=1)
            return reset(writer)
        try:
            target = await asyncio.open_connection(*self.target)
        except OSError:
            self._see(unreachable=1)
            return reset(writer)
        lanes = (
            Lane(self, "to_target", reader, target[1]),
            Lane(self, "to_client", target[0], writer),
        )
        connection = ProxyConnection((writer, target[1]), lanes)
        self._connections[connection] = None
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            await close(target[1])
        return None

    def _set_mode(self, mode: ProxyMode) -> None:
        self.mode = mode
        self._mode_changed.set()
        self._mode_changed = asyncio.Event()
        for connection in [each for each in self._connections if each.is_past_mending(mode)]:
            self._cut(connection)

    def _cut_all(self) -> None:
        for connection in list(self._connections):
            self._cut(connection)

    def _cut(self, connection: ProxyConnection) -> None:
        connection.reset()
        self._see(cut=1)

    def _call(self, what: Callable[[], object]) -> None:
        async def call() -> None:
            what()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(call_s_max)

    def _see(self, **more: int) -> None:
        with self._seen_changed:
            counts = {name: getattr(self._seen, name) + count for name, count in more.items()}
            self._seen = msgspec.structs.replace(self._seen, **counts)
            self._seen_changed.notify_all()

    # What a lane needs

    def delay_s(self) -> float:
        return (self.mode.delay_ms + self._dice.between(0, self.mode.jitter_ms)) / 1000

    async def pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._mode_changed.wait(), seconds)

    def count(self, direction: Direction, size_bytes: int, *, passed: bool) -> None:
        self._see(**{f"{'passed' if passed else 'dropped'}_{direction}_bytes": size_bytes})

    def count_dropped_end(self) -> None:
        self._see(dropped_ends=1)


class ProxyMesh:
    """Proxies for the links of the nodes in ``proxied``, from ``open`` to ``close``."""

    def __init__(self, proxied: Sequence[int]) -> None:
        self._proxied = tuple(proxied)
        self._opened = contextlib.ExitStack()
        #: (who dials, whom) -> the proxy between them
        self._proxies: dict[tuple[int, int], FaultProxy] = {}

    def open(self, endpoints: Sequence[str]) -> None:
        """Listen in front of these nodes, each at ``host:port``."""
        for i in self._proxied:
            for j in range(len(endpoints)):
                for pair in ((i, j), (j, i)):
                    if i != j and pair not in self._proxies:
                        proxy = FaultProxy(endpoints[pair[1]])
                        self._proxies[pair] = self._opened.enter_context(proxy)

    def close(self) -> None:
        self._opened.close()
        self._proxies = {}

    def endpoint(self, dialer: int, other: int, direct: str) -> str:
        """Where one node reaches another."""
        proxy = self._proxies.get((dialer, other))
        return direct if proxy is None else proxy.endpoint

    def isolate(self, i: int, mode: ProxyMode | None = None) -> None:
        """Swallow what the other nodes and this one say to each other, or do as ``mode`` says."""
        lost = ProxyMode(to_target=False, to_client=False) if mode is None else mode
        for proxy in self._links(i):
            proxy.set_mode(lost)

    def heal(self, i: int) -> None:
        """Let everything pass again."""
        for proxy in self._links(i):
            proxy.heal()

    def deafen(self, i: int) -> None:
        """Let this node speak to the others, and hear nothing from them."""
        self._one_way(i, is_heard=True)

    def mute(self, i: int) -> None:
        """Let this node hear the others, and not be heard."""
        self._one_way(i, is_heard=False)

    def _one_way(self, i: int, *, is_heard: bool) -> None:
        self._links(i)
        for (dialer, other), proxy in self._proxies.items():
            if i in (dialer, other):
                # What the one who dialed says, goes to the target.
                is_forward = (dialer == i) == is_heard
                proxy.one_way("to_target" if is_forward else "to_client")

    def _links(self, i: int) -> list[FaultProxy]:
        if i not in self._proxied:
            raise BadInput(f"there is no proxy before node {i}", hint="name it in `proxied`")
        return [proxy for pair, proxy in self._proxies.items() if i in pair]
