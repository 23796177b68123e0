"""The HTTP port: who may ask, how many, and for how long they may do nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.node.nodes import SECONDS_MAX, ask_soon, free_base_port

from motet.client.link import HTTP_PORT_OFFSET
from motet.node import http_connection
from motet.node.config import Config, HttpSettings, NodeSettings
from motet.node.node import Node

Check = Callable[[Node, int], Awaitable[None]]


def with_node(folder: Path, check: Check, *, allowed: tuple[str, ...] = ()) -> None:
    port = free_base_port()

    async def main() -> None:
        settings = NodeSettings(port=port, data=str(folder), roles=())
        node = Node(Config(node=settings, http=HttpSettings(allowed_hosts=allowed)))
        await node.start()
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await check(node, port + HTTP_PORT_OFFSET)
        finally:
            await node.stop()

    asyncio.run(main())


async def say(port: int, head: str) -> tuple[int, str]:
    """The status and the body of the answer to these lines."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /livez HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    status, _, body = answer.partition("\r\n\r\n")
    return int(status.split()[1]), body


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - nobody tells a test of everything
        await asyncio.sleep(0.01)


def test_only_hosts_that_mean_this_node_are_answered(tmp_path: Path) -> None:
    async def check(_: Node, port: int) -> None:
        for host in ("localhost", "LOCALHOST.", "127.0.0.1", "127.8.9.1", "[::1]", "db.example"):
            for suffix in ("", f":{port}"):
                status, _body = await say(port, f"Host: {host}{suffix}\r\n")
                assert status == 200, host
        for host in (
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
        ):
            status, body = await say(port, f"Host: {host}:{port}\r\n")
            error = json.loads(body)["error"]
            assert (status, error["code"]) == (421, "BAD_INPUT")
            assert host in error["what"]
            assert "http.allowed_hosts" in error["advice"]

    with_node(tmp_path, check, allowed=("DB.example",))


def test_a_page_of_somebody_else_is_refused(tmp_path: Path) -> None:
    async def check(_: Node, port: int) -> None:
        own = f"Host: localhost:{port}\r\n"
        assert (await say(port, f"{own}Origin: http://localhost:{port}\r\n"))[0] == 200
        for origin in ("http://evil.example", "null", "http://localhost:1", "https://localhost"):
            status, body = await say(port, f"{own}Origin: {origin}\r\n")
            assert status == 403
            assert "http.allowed_hosts" in json.loads(body)["error"]["advice"]

    with_node(tmp_path, check)


def test_who_sends_no_request_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "head_seconds_max", 1.0)

    async def check(node: Node, port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for place, (_, writer) in enumerate(silent):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"[:place])
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        assert node.clients().refused_http == {"silent": 20}
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /li")
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        assert node.clients().refused_http == {"silent": 21}, (
            "the second request was never finished"
        )
        writer.close()

    with_node(tmp_path, check)


def test_who_waits_between_requests_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "head_seconds_max", 0.2)

    async def check(node: Node, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"ok\n")
            await asyncio.sleep(0.3)
        assert node.clients().refused_http == {}
        writer.close()

    with_node(tmp_path, check)


def test_one_connection_more_than_allowed_is_closed(tmp_path: Path) -> None:
    async def check(node: Node, port: int) -> None:
        connections = node._http.connections
        connections.connections_max = 5
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        await until(lambda: connections.count == 5)
        reader, late = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        late.close()
        assert node.clients().refused_http == {"too_many": 1}
        idle[0][1].close()
        await until(lambda: connections.count == 4)
        assert (await ask_soon(port - HTTP_PORT_OFFSET, "/livez")).status == 200
        for _, writer in idle:
            writer.close()

    with_node(tmp_path, check)
