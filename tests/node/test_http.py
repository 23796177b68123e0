"""The HTTP face: every path, and what strangers get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.node.nodes import ask_soon, free_base_port

from motet import __version__
from motet.node.config import Config, NodeSettings
from motet.node.node import Node


def with_node(folder: Path, check: Callable[[Node, int], Awaitable[None]]) -> None:
    port = free_base_port()

    async def main() -> None:
        node = Node(Config(node=NodeSettings(port=port, data=str(folder), roles=())))
        await node.start()
        try:
            await check(node, port)
        finally:
            await node.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/", 404), ("POST", "/livez", 405)],
)
def test_errors_are_json_with_code_and_advice(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async def check(_: Node, port: int) -> None:
        answer = await ask_soon(port, path, method)
        assert answer.status == status
        assert answer.content_type == "application/json"
        assert answer.json["error"]["code"] == "BAD_INPUT"
        assert path in answer.json["error"]["what"]
        assert "/api/status" in answer.json["error"]["advice"]

    with_node(tmp_path, check)


def test_a_broken_handler_is_a_json_error_and_the_node_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(node: Node, port: int) -> None:
        def fail() -> list[str]:
            raise RuntimeError("planted")

        monkeypatch.setattr(node.driver, "not_serving", fail)
        answer = await ask_soon(port, "/api/status")
        assert answer.status == 500
        assert "planted" in answer.json["error"]["what"]
        assert (await ask_soon(port, "/livez")).status == 200
        assert node.driver.running

    with_node(tmp_path, check)


def test_every_metric_has_a_help_text_and_counts(tmp_path: Path) -> None:
    async def check(node: Node, port: int) -> None:
        answer = await ask_soon(port, "/metrics")
        assert answer.status == 200
        assert answer.content_type.startswith("text/plain")
        lines = answer.body.splitlines()
        helped = {line.split()[2] for line in lines if line.startswith("# HELP")}
        typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        assert typed == helped
        assert all(name.startswith("motet_") for name in helped)
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        identity = f'motet_build_info{{cluster="motet",node="n0",version="{__version__}"}}'
        assert values[identity] == "1.0"
        assert float(values["motet_turns_total"]) >= 1
        assert float(values["motet_events_total"]) == node.driver.counters.events
        assert values['motet_sync_seconds_bucket{le="+Inf"}'] == values["motet_sync_seconds_count"]

    with_node(tmp_path, check)


def test_two_nodes_in_one_process_count_for_themselves(tmp_path: Path) -> None:
    async def check(first: Node, port: int) -> None:
        async def check_second(second: Node, other_port: int) -> None:
            first.driver.counters.turns += 1_000_000
            assert (await ask_soon(port, "/metrics")).body != ""
            body = (await ask_soon(other_port, "/metrics")).body
            (turns,) = (line for line in body.splitlines() if line.startswith("motet_turns_total "))
            assert float(turns.split()[1]) == second.driver.counters.turns < 1_000_000

        settings = NodeSettings(port=free_base_port(), data=str(tmp_path / "b"), roles=())
        node = Node(Config(node=settings))
        await node.start()
        try:
            await check_second(node, node.config.node.port)
        finally:
            await node.stop()

    with_node(tmp_path / "a", check)
