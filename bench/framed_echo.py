"""Framed request and reply over loopback TCP, against a bare asyncio Protocol echo.

Both sides of the claim do the same work: 256 bytes there and back, 64 in flight, a server process and
a client process, on the same kind of event loop. The bare pair cuts messages by a length and echoes
them. The framed pair is ``TcpNetwork`` as a node uses it: greetings, checksums, an inbox, a turn that
takes, sends and flushes once. Rounds alternate; the ratio is the median over pairs of neighbouring
rounds, so that a machine that slows down slows both.

Where the two processes run matters more than what they do, so it is fixed: by default each has a core
of its own, as two machines would; ``--placement one`` puts both on the same core, where nothing hides
behind the time it takes to wake the other side, and ``free`` leaves it to the system.

    python bench/framed_echo.py [--quick] [--json] [--loop asyncio|uvloop] [--placement two|one|free]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any, cast

from motet.format.frame import FRAME_HEADER_BYTES, Frame
from motet.ids import Address
from motet.limits import turn_events_max
from motet.real.network import TcpNetwork
from motet.real.process import loop_factory

RATIO_REQUIRED = 0.60
IN_FLIGHT = 64
FRAME_BYTES = 256
BODY = bytes(FRAME_BYTES - FRAME_HEADER_BYTES)
KIND = 16
CLUSTER = "bench"
SERVER = Address("server")
HOST = "127.0.0.1"
LENGTH_BYTES = 4
BARE_MESSAGE = (FRAME_BYTES - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "little") + bytes(
    FRAME_BYTES - LENGTH_BYTES
)


class Stopwatch:
    """What both clients do with an answer: count it, and note how long it took."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.count = 0
        self.latencies: list[float] = []
        self.finished: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self.started = time.perf_counter()
        self.asked_at = [self.started] * IN_FLIGHT

    def answered(self, number: int, now: float) -> None:
        """The answer to this request is here, and the next one is sent at once."""
        slot = number % IN_FLIGHT
        self.latencies.append(now - self.asked_at[slot])
        self.asked_at[slot] = now
        self.count += 1

    def is_over(self, now: float) -> bool:
        """Whether to stop asking; says so to whoever waits."""
        elapsed = now - self.started
        if elapsed < self.seconds:
            return False
        if not self.finished.done():
            self.finished.set_result(self.count / elapsed)
        return True


# The bare pair


class BareServer(asyncio.Protocol):
    """Cuts messages by their length and sends them back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.tail = b""

    def data_received(self, data: bytes) -> None:
        messages, self.tail = cut(self.tail + data if self.tail else data)
        if messages:
            self.transport.write(b"".join(messages))


class BareClient(asyncio.Protocol):
    """Keeps so many messages in flight until the time is over, and times each of them."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.stopwatch = stopwatch
        self.tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.stopwatch.start()
        self.transport.write(BARE_MESSAGE * IN_FLIGHT)

    def data_received(self, data: bytes) -> None:
        stopwatch = self.stopwatch
        now = time.perf_counter()
        messages, self.tail = cut(self.tail + data if self.tail else data)
        for _ in messages:
            stopwatch.answered(stopwatch.count, now)
        if not stopwatch.is_over(now):
            self.transport.write(BARE_MESSAGE * len(messages))


def cut(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole messages in the data, and the rest."""
    messages = []
    position, end = 0, len(data)
    while end - position >= LENGTH_BYTES:
        length = int.from_bytes(data[position : position + LENGTH_BYTES], "little")
        after = position + LENGTH_BYTES + length
        if after > end:
            break
        messages.append(data[position:after])
        position = after
    return messages, data[position:]


async def serve_bare() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(BareServer, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def ask_bare(port: int, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    stopwatch = Stopwatch(seconds)
    transport, _ = await loop.create_connection(lambda: BareClient(stopwatch), HOST, port)
    rate = await stopwatch.finished
    transport.close()
    return rate


# The framed pair


class Turns:
    """What a node's loop does without a machine: a turn soon after something has arrived."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def wake(self) -> None:
        self.loop.call_soon(self.turn)

    def turn(self) -> None:
        raise NotImplementedError


class FramedServer(Turns):
    """Answers each frame with itself."""

    network: TcpNetwork

    def turn(self) -> None:
        network = self.network
        send = network.send
        for delivery in network.take(turn_events_max):
            send(delivery.sender, delivery.frame)
        network.flush()


class FramedClient(Turns):
    """Keeps so many requests in flight until the time is over, and times each of them."""

    network: TcpNetwork

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self.stopwatch = stopwatch
        self.asked = 0

    def start(self) -> None:
        self.stopwatch.start()
        self.ask(IN_FLIGHT)

    def ask(self, count: int) -> None:
        send = self.network.send
        for number in range(self.asked, self.asked + count):
            send(SERVER, Frame(KIND, number, BODY))
        self.asked += count
        self.network.flush()

    def turn(self) -> None:
        stopwatch = self.stopwatch
        now = time.perf_counter()
        deliveries = self.network.take(turn_events_max)
        for delivery in deliveries:
            stopwatch.answered(delivery.frame.id, now)
        if not stopwatch.is_over(now):
            self.ask(len(deliveries))


async def serve_framed() -> None:
    server = FramedServer()
    server.network = TcpNetwork(
        SERVER, cluster=CLUSTER, listen=(HOST, 0), peers={}, wake=server.wake
    )
    await server.network.start()
    print(server.network.port, flush=True)
    await asyncio.Event().wait()


async def ask_framed(port: int, seconds: float) -> float:
    stopwatch = Stopwatch(seconds)
    client = FramedClient(stopwatch)
    client.network = TcpNetwork(
        None, cluster=CLUSTER, listen=None, peers={SERVER: (HOST, port)}, wake=client.wake
    )
    await client.network.start()
    client.start()
    rate = await stopwatch.finished
    await client.network.stop()
    return rate


# Running them


def run_on(loop_kind: str, main: Coroutine[Any, Any, Any]) -> Any:
    factory = loop_factory() if loop_kind == "uvloop" else asyncio.SelectorEventLoop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def cores() -> list[int]:
    """The cores we may use; none where a process cannot choose."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))


def take_place(role: str, placement: str) -> None:
    if placement != "free":
        own = cores()[1] if placement == "two" and role.endswith("client") else cores()[0]
        os.sched_setaffinity(0, {own})


def play(role: str, options: argparse.Namespace, seconds: float) -> None:
    """Be one of the four processes."""
    take_place(role, options.placement)
    loop_kind, port = options.loop, options.port
    if role == "bare-server":
        run_on(loop_kind, serve_bare())
    elif role == "framed-server":
        run_on(loop_kind, serve_framed())
    elif role == "bare-client":
        print(run_on(loop_kind, ask_bare(port, seconds)))
    else:
        print(run_on(loop_kind, ask_framed(port, seconds)))


def one_round(pair: str, options: argparse.Namespace, seconds: float) -> float:
    """Start a server and a client; the client's requests answered per second."""
    same = ["--loop", options.loop, "--placement", options.placement]
    base = [sys.executable, __file__, *same, "--role"]
    server = subprocess.Popen([*base, f"{pair}-server"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        client = [*base, f"{pair}-client", "--port", port, "--seconds", str(seconds)]
        answer = subprocess.run(client, stdout=subprocess.PIPE, text=True, check=True)
        return float(answer.stdout)
    finally:
        server.kill()
        server.communicate()


def measure(options: argparse.Namespace, rounds: int, seconds: float) -> dict[str, object]:
    bare, framed = [], []
    for _ in range(rounds):
        bare.append(one_round("bare", options, seconds))
        framed.append(one_round("framed", options, seconds))
    ratios = [ours / theirs for ours, theirs in zip(framed, bare, strict=True)]
    ratio = statistics.median(ratios)
    return {
        "bench": "framed_echo",
        "loop": options.loop,
        "placement": options.placement,
        "in_flight": IN_FLIGHT,
        "frame_bytes": FRAME_BYTES,
        "bare_per_second": round(statistics.median(bare)),
        "framed_per_second": round(statistics.median(framed)),
        "ratio": round(ratio, 3),
        "ratios": [round(one, 3) for one in ratios],
        "required": RATIO_REQUIRED,
        "ok": ratio >= RATIO_REQUIRED,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    default_loop = "asyncio" if loop_factory() is None else "uvloop"
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default=default_loop)
    default_placement = "two" if len(cores()) > 1 else "free"
    parser.add_argument("--placement", choices=["two", "one", "free"], default=default_placement)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seconds = options.seconds or (0.5 if options.quick else 2.0)
    if options.role:
        play(options.role, options, seconds)
        return 0
    result = measure(options, options.rounds or (3 if options.quick else 7), seconds)
    if options.json:
        print(json.dumps(result))
    else:
        where = f"{options.loop}, placement {options.placement}"
        print(f"framed request/reply, {IN_FLIGHT} in flight, {FRAME_BYTES} B, {where}")
        print(f"  bare asyncio Protocol echo  {result['bare_per_second']:>9,} /s")
        print(f"  framed over TcpNetwork      {result['framed_per_second']:>9,} /s")
        print(f"  ratio {result['ratio']} (rounds {result['ratios']}), required {RATIO_REQUIRED}")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
