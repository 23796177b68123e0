"""The fault proxy in front of an echo server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from motet.errors import BadInput
from motet.testing.fault_proxy import FaultProxy
from motet.testing.proxy_lane import ProxyMode


class Echo(socketserver.BaseRequestHandler):
    """Sends everything back; hangs up on ``bye`` and resets on ``die``."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(65536):
                if data == b"die":
                    linger = struct.pack("ii", 1, 0)
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.request.close()
                if data in (b"bye", b"die"):
                    break
                self.request.sendall(data)


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: str) -> Iterator[FaultProxy]:
    with FaultProxy(echo) as proxy:
        yield proxy


@contextlib.contextmanager
def connected(proxy: FaultProxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as client:
        yield client


def read(client: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes and (more := client.recv(65536)):
        data += more
    return data


def said_back(client: socket.socket, data: bytes) -> bool:
    client.sendall(data)
    return read(client, len(data)) == data


def is_reset(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b"only a reset will do"
    except ConnectionResetError:
        return True


def is_refused(proxy: FaultProxy) -> bool:
    """A new connection is reset: at its first read, or while it is being made."""
    try:
        with connected(proxy) as client:
            return is_reset(client)
    except ConnectionResetError:
        return True


def test_without_a_fault_everything_passes_and_is_counted(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        assert said_back(client, b"hello")
    seen = proxy.wait_until(lambda seen: seen.passed_to_client_bytes == 5)
    assert seen.connections == 1
    assert seen.passed_to_target_bytes == 5
    assert seen.dropped_to_target_bytes == seen.dropped_to_client_bytes == seen.cut == 0


def test_large_streams_pass_whole(proxy: FaultProxy) -> None:
    data = bytes(range(256)) * 8192
    with connected(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert read(client, len(data)) == data
        sender.join()


def test_a_stream_ends_through_the_proxy_as_it_does_without(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert read(client, 100) == b"last words"
        assert client.recv(1) == b""


def test_a_target_that_resets_is_a_reset(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        client.sendall(b"die")
        assert is_reset(client)


def test_a_delay_holds_every_piece_back(proxy: FaultProxy) -> None:
    proxy.delay(40)
    with connected(proxy) as client:
        before = time.monotonic()
        assert said_back(client, b"x")
        assert time.monotonic() - before >= 0.079, "40 ms each way"


def test_jitter_does_not_reorder(proxy: FaultProxy) -> None:
    proxy.delay(0, jitter_ms=5)
    pieces = [f"{number} ".encode() for number in range(50)]
    with connected(proxy) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            client.sendall(piece)
        assert read(client, len(b"".join(pieces))) == b"".join(pieces)


def test_jitter_is_decided_by_the_seed() -> None:
    def delays(seed: int) -> list[float]:
        proxy = FaultProxy("127.0.0.1:1", seed=seed)
        proxy.mode = ProxyMode(delay_ms=10, jitter_ms=1000)
        return [proxy.delay_s() for _ in range(20)]

    assert delays(1) == delays(1)
    assert delays(1) != delays(2)
    assert all(0.01 <= delay <= 1.01 for delay in delays(1))


def test_a_new_mode_sets_free_what_an_old_one_held_back(proxy: FaultProxy) -> None:
    proxy.delay(3_600_000)
    with connected(proxy) as client:
        client.sendall(b"x")
        proxy.wait_until(lambda seen: seen.connections == 1)
        proxy.heal()
        assert read(client, 1) == b"x"


def test_a_slow_connection_takes_its_time_and_loses_nothing(proxy: FaultProxy) -> None:
    proxy.slow(10_000)
    with connected(proxy) as client:
        before = time.monotonic()
        assert said_back(client, b"x" * 2_000)
        assert time.monotonic() - before >= 0.14, "0.2 s, less the pause after the last piece"


def test_dropped_bytes_are_gone_and_nobody_is_told(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        assert said_back(client, b"before")
        proxy.drop()
        client.sendall(b"into the void")
        proxy.wait_until(lambda seen: seen.dropped_to_target_bytes == len(b"into the void"))
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)


def test_a_stream_with_a_hole_in_it_is_reset_when_bytes_pass_again(proxy: FaultProxy) -> None:
    with connected(proxy) as holed, connected(proxy) as whole:
        assert said_back(holed, b"1")
        assert said_back(whole, b"1")
        proxy.drop()
        holed.sendall(b"lost")
        proxy.wait_until(lambda seen: seen.dropped_to_target_bytes == 4)
        proxy.heal()
        assert is_reset(holed)
        assert said_back(whole, b"2"), "nothing was lost here, so it goes on"
        assert proxy.seen().cut == 1


def test_the_end_of_a_stream_is_dropped_too(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        assert said_back(client, b"x")
        proxy.one_way("to_target")
        client.sendall(b"bye")  # the target hangs up
        proxy.wait_until(lambda seen: seen.dropped_ends == 1)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)


def test_one_way_to_the_target_swallows_the_answers(proxy: FaultProxy) -> None:
    proxy.one_way("to_target")
    with connected(proxy) as client:
        client.sendall(b"asked")
        seen = proxy.wait_until(lambda seen: seen.dropped_to_client_bytes == 5)
        assert seen.passed_to_target_bytes == 5
        assert seen.passed_to_client_bytes == 0


def test_one_way_to_the_client_swallows_the_requests(proxy: FaultProxy) -> None:
    proxy.one_way("to_client")
    with connected(proxy) as client:
        client.sendall(b"asked")
        seen = proxy.wait_until(lambda seen: seen.dropped_to_target_bytes == 5)
        assert seen.passed_to_target_bytes == 0


def test_a_cut_resets_what_is_there_and_lets_the_next_one_pass(proxy: FaultProxy) -> None:
    with connected(proxy) as first, connected(proxy) as second:
        assert said_back(first, b"1")
        assert said_back(second, b"2")
        proxy.cut()
        assert is_reset(first)
        assert is_reset(second)
    assert proxy.seen().cut == 2
    with connected(proxy) as third:
        assert said_back(third, b"3")


def test_refusing_resets_new_connections_alone(proxy: FaultProxy) -> None:
    with connected(proxy) as old:
        assert said_back(old, b"1")
        proxy.refuse()
        assert is_refused(proxy)
        assert said_back(old, b"2")
        assert proxy.seen().refused == 1
        proxy.heal()
        with connected(proxy) as new:
            assert said_back(new, b"3")


def test_faults_combine(proxy: FaultProxy) -> None:
    proxy.set_mode(ProxyMode(to_client=False, delay_ms=30))
    with connected(proxy) as client:
        before = time.monotonic()
        client.sendall(b"asked")
        proxy.wait_until(lambda seen: seen.dropped_to_client_bytes == 5)
        assert time.monotonic() - before >= 0.059


def test_without_a_target_the_connection_is_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with FaultProxy(f"127.0.0.1:{port}") as proxy:
        assert is_refused(proxy)
        assert proxy.seen().unreachable == 1


def test_it_ends_though_nobody_reads_what_it_holds(echo: str) -> None:
    with FaultProxy(echo) as proxy, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", proxy.port))
        client.settimeout(20)
        client.sendall(b"x" * 1_000_000)
        proxy.wait_until(lambda seen: seen.passed_to_client_bytes > 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))


def test_it_serves_a_test_that_is_async_itself() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    async def scene() -> bytes:
        async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with FaultProxy(f"127.0.0.1:{port}") as proxy:
                proxy.delay(1)
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                writer.write(b"hello\n")
                answer = await reader.read()
                writer.close()
                await writer.wait_closed()
                return answer

    assert asyncio.run(scene()) == b"HELLO\n"


def test_waiting_in_vain_says_what_was_seen(proxy: FaultProxy) -> None:
    with pytest.raises(TimeoutError, match="ProxySeen"):
        proxy.wait_until(lambda seen: seen.cut > 0, wait_s=0)


@pytest.mark.parametrize("target", ["", "7400", "host:", "host:port"])
def test_a_target_is_a_host_and_a_port(target: str) -> None:
    with pytest.raises(BadInput, match="no target"):
        FaultProxy(target)
