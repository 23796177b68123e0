"""A whole node: in this loop, and as a process that is stopped, killed and started again."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.node.nodes import (
    SECONDS_MAX,
    ask,
    ask_soon,
    free_base_port,
    node_process,
    wait_until_ready,
)

import motet
import motet.aio
from motet.client.link import parse_endpoint
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import DataCall
from motet.core.streams.node import DataNode
from motet.errors import BadConfig, MotetError, NodeError
from motet.ids import NodeId
from motet.limits import clock_reserve_ms
from motet.node import registry
from motet.node.config import (
    DATA_ROLE,
    KEEPER_ROLE,
    ROLES,
    Config,
    DebugSettings,
    KeeperSettings,
    NodeSettings,
)
from motet.node.node import Node, check_can_run
from motet.node.trace import replay

SMALL = KeeperSettings(format=True, log_slots=64, checkpoint_ops=16)


def config(folder: Path, port: int, node: str = "n0", **peers: int) -> Config:
    """Of a node without roles: it starts at once."""
    return Config(
        node=NodeSettings(
            id=NodeId(node),
            port=port,
            data=str(folder / node),
            roles=(),
            peers={NodeId(peer): f"127.0.0.1:{at}" for peer, at in peers.items()},
        ),
        keeper=SMALL,
        debug=DebugSettings(invariants=True),
    )


def with_roles(settings: Config, *roles: str) -> Config:
    return msgspec.structs.replace(
        settings, node=msgspec.structs.replace(settings.node, roles=roles)
    )


@asynccontextmanager
async def running(settings: Config) -> AsyncIterator[Node]:
    node = Node(settings)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
        node.driver.finished.result()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that will come about by itself."""
    async with asyncio.timeout(SECONDS_MAX):
        while not await condition():  # noqa: ASYNC110 - it is asked over HTTP
            await asyncio.sleep(0.01)


async def ready(port: int) -> None:
    async def is_ready() -> bool:
        return (await ask_soon(port, "/readyz")).status == 200

    await until(is_ready)


def test_a_node_serves_its_clock_and_tells_how_it_is(tmp_path: Path) -> None:
    """C27: whoever can reach a node can read its clock; nobody can set it."""
    port = free_base_port()

    async def main() -> None:
        async with running(with_roles(config(tmp_path, port), *ROLES)) as node:
            await ready(port)
            async with motet.aio.connect(f"127.0.0.1:{port}") as db:
                stream = await db.create_stream("s", shards=1)
                first = await stream.append(key=b"k", value=b"1")
                second = await stream.append(key=b"k", value=b"2")
            assert first.clock < second.clock
            status = (await ask_soon(port, "/api/status")).json
            assert (status["id"], status["cluster"]) == ("n0", "motet")
            assert status["roles"] == list(ROLES)
            assert status["ready"] is True
            assert status["started_at"] == node.started_at.isoformat().replace("+00:00", "Z")
            assert list(status["machines"]) == ["time", "keeper", "data", "tables", "operator"]
            assert status["machines"]["time"]["detail"]["synchronized"] is True, "it is alone"
            clock = status["clock"]
            assert second.clock <= Clock.parse(clock["clock"]) <= Clock.parse(clock["bound"])
            assert clock["drift_ms"] <= clock_reserve_ms
            assert (clock["agreed"], clock["wall_drift_ms"]) == (True, None), "it is alone"
            assert (await ask_soon(port, "/api/status", "PUT")).status == 405

    asyncio.run(main())


def test_a_node_that_cannot_serve_says_why(tmp_path: Path) -> None:
    port = free_base_port()
    (tmp_path / "n0" / "data").mkdir(parents=True)
    (tmp_path / "n0" / "data" / "clock-bound").write_bytes(b"garbage")

    async def main() -> None:
        async with running(with_roles(config(tmp_path, port), DATA_ROLE)) as node:

            async def has_read_its_bound() -> bool:
                return any(what == "data_broken" for _, what in node.driver.counters.notes)

            await until(has_read_its_bound)
            answer = await ask_soon(port, "/readyz")
            assert answer.status == 503
            assert answer.json["ready"] is False
            (why,) = [why for why in answer.json["reasons"] if why.startswith("data: ")]
            assert "BAD_RECORD clock-bound is damaged" in why
            assert "keep the file; put back a copy" in why
            assert (await ask_soon(port, "/livez")).status == 200
            status = (await ask_soon(port, "/api/status")).json
            assert (status["ready"], status["clock"]["bound"]) == (False, None)
            assert "motet_ready 0.0" in (await ask_soon(port, "/metrics")).body

    asyncio.run(main())


def test_a_node_is_ready_when_the_keeper_knows_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "entry_seconds_max", SECONDS_MAX)
    ports = {f"n{i}": free_base_port() for i in range(2)}

    def of(node: str, role: str) -> Config:
        settings = with_roles(config(tmp_path, ports[node], node, **ports), role)
        keeper = msgspec.structs.replace(SMALL, members=(NodeId("n1"),))
        return msgspec.structs.replace(settings, keeper=keeper)

    async def only_the_entry_is_missing() -> bool:
        answer = await ask_soon(ports["n0"], "/readyz")
        return list(answer.json["reasons"]) == ["registry: not entered in the keeper yet"]

    async def main() -> None:
        async with running(of("n0", DATA_ROLE)):
            await until(only_the_entry_is_missing)
            assert (await ask_soon(ports["n0"], "/api/status")).json["ready"] is False
            async with running(of("n1", KEEPER_ROLE)):
                await ready(ports["n1"])
                await ready(ports["n0"])

    asyncio.run(main())


def test_a_node_that_finds_no_keeper_is_ready_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "entry_seconds_max", 0.1)
    ports = {f"n{i}": free_base_port() for i in range(2)}
    settings = with_roles(config(tmp_path, ports["n0"], "n0", **ports), DATA_ROLE)
    keeper = msgspec.structs.replace(SMALL, members=(NodeId("n1"),))

    async def main() -> None:
        async with running(msgspec.structs.replace(settings, keeper=keeper)):
            await ready(ports["n0"])

    asyncio.run(main())


def test_nodes_of_a_cluster_find_each_other(tmp_path: Path) -> None:
    ports = {f"n{i}": free_base_port() for i in range(3)}

    async def all_are_connected() -> bool:
        answers = [await ask_soon(port, "/api/status") for port in ports.values()]
        return all(peer["connected"] for answer in answers for peer in answer.json["peers"])

    async def main() -> None:
        a, b, c = (config(tmp_path, port, node, **ports) for node, port in ports.items())
        async with running(a), running(b), running(c):
            await until(all_are_connected)
            peers = (await ask_soon(ports["n1"], "/api/status")).json["peers"]
            assert [(peer["id"], peer["address"]) for peer in peers] == [
                ("n0", f"127.0.0.1:{ports['n0']}"),
                ("n2", f"127.0.0.1:{ports['n2']}"),
            ]

    asyncio.run(main())


def test_a_folder_belongs_to_one_node_and_is_free_again_after_it(tmp_path: Path) -> None:
    port, other_port = free_base_port(), free_base_port()

    async def main() -> None:
        async with running(config(tmp_path, port)):
            with pytest.raises(NodeError, match="is in use by process"):
                await Node(config(tmp_path, other_port)).start()
        async with running(config(tmp_path, other_port)):
            await ready(other_port)

    asyncio.run(main())


@pytest.mark.parametrize(("offset", "what"), [(0, "peers"), (3, "HTTP")])
def test_a_taken_port_is_a_clear_error_and_leaves_nothing_behind(
    tmp_path: Path, offset: int, what: str
) -> None:
    settings = config(tmp_path, free_base_port())

    async def main() -> None:
        taken = settings.node.port + offset
        complaint = rf"cannot listen at 127\.0\.0\.1:{taken} for {what}"
        with (
            socket.create_server(("127.0.0.1", taken)),
            pytest.raises(NodeError, match=complaint),
        ):
            await Node(settings).start()
        async with running(settings):
            await ready(settings.node.port)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        (NodeSettings(roles=("keepr",)), BadConfig, "there is no role keepr; did you mean keeper"),
        (NodeSettings(peers={NodeId("n1"): "h:1"}), BadConfig, "does not name this node, n0"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_touched(
    settings: NodeSettings, error: type[MotetError], what: str
) -> None:
    with pytest.raises(error, match=what):
        check_can_run(Config(node=settings))


def test_addresses_are_taken_apart() -> None:
    assert parse_endpoint("127.0.0.1:7400") == ("127.0.0.1", 7400)
    assert parse_endpoint("[::1]:7400") == ("::1", 7400)


def test_a_recorded_node_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_seconds_max", 0.1)
    port, trace = free_base_port(), tmp_path / "trace"
    settings = with_roles(config(tmp_path, port), DATA_ROLE)
    recorded = msgspec.structs.replace(settings, debug=DebugSettings(trace=str(trace)))

    async def main() -> None:
        async with running(recorded):
            await ready(port)

    asyncio.run(main())
    replayed = replay(
        trace.read_bytes().splitlines(),
        "data",
        lambda: DataNode(NodeId("n0"), nodes=(NodeId("n0"),)),
        DataCall,
    )
    assert replayed.divergence is None
    assert replayed.steps >= 3, "started, read back its bound and its shards"


def test_a_trace_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    settings = Config(
        node=config(tmp_path, free_base_port()).node, debug=DebugSettings(trace=str(tmp_path))
    )
    with pytest.raises(NodeError, match="cannot write the trace"):
        asyncio.run(Node(settings).start())


def test_a_data_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "n0").write_text("a file, not a folder")
    with pytest.raises(NodeError, match=r"cannot use .* as data folder"):
        asyncio.run(Node(config(tmp_path, free_base_port())).start())


# Processes


def test_a_process_starts_serves_and_stops_cleanly(tmp_path: Path) -> None:
    port = free_base_port()
    bare = ("--roles", "")
    with node_process(tmp_path / "data", port, *bare, MOTET_LOG__FORMAT="json") as process:
        wait_until_ready(port, process)
        assert ask(port, "/livez").body == "ok\n"
        with node_process(tmp_path / "data", free_base_port(), *bare) as second:
            _, complaint = second.communicate(timeout=SECONDS_MAX)
            assert second.returncode == 1
            assert complaint.startswith("NODE ")
            assert f"is in use by process {process.pid}; stop that process first" in complaint
            assert "Traceback" not in complaint
        process.send_signal(signal.SIGTERM)
        out, log = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert out == ""
    assert ['"node_started"' in log, '"node_ended"' in log] == [True, True]


def test_the_clock_goes_on_above_what_it_handed_out_before_kill_9(tmp_path: Path) -> None:
    """C10, on a process with all roles, which is what a node has by itself."""
    port = free_base_port()
    clocks: list[Clock] = []
    for life in range(2):
        flags = ["--format"] if life == 0 else []
        with node_process(
            tmp_path / "data",
            port,
            *flags,
            MOTET_KEEPER__LOG_SLOTS="64",
            MOTET_KEEPER__CHECKPOINT_OPS="16",
        ) as process:
            wait_until_ready(port, process)
            with motet.connect(f"127.0.0.1:{port}") as db:
                stream = db.create_stream("s", shards=1) if life == 0 else db.stream("s")
                clocks += [stream.append(key=b"k", value=b"v").clock for _ in range(3)]
            process.send_signal(signal.SIGKILL)
    assert clocks == sorted(set(clocks))


def test_a_node_refuses_to_run_without_its_assertions(tmp_path: Path) -> None:
    with node_process(tmp_path / "data", free_base_port(), python_flags=("-O",)) as process:
        _, complaint = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 1
    assert complaint.startswith("NODE this Python runs with -O")
    assert not (tmp_path / "data").exists()
