"""The number of a node's process rises over restarts, whatever its wall says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.node.nodes import free_base_port

from motet.format.frame import FrameDecoder
from motet.ids import NodeId
from motet.node import registry
from motet.node.config import Config, DebugSettings, NodeSettings
from motet.node.node import Node
from motet.node.registry import INCARNATION_FILE, incarnation_max, next_incarnation
from motet.real.hello import decode_hello

HOUR_MS = 3_600_000


def test_it_is_the_wall_or_one_more_than_the_last(tmp_path: Path) -> None:
    assert next_incarnation(tmp_path, 5_000) == 5_000
    assert next_incarnation(tmp_path, 7_000) == 7_000
    assert next_incarnation(tmp_path, 7_000) == 7_001
    assert next_incarnation(tmp_path, 3_000) == 7_002, "the wall was set back"
    assert next_incarnation(tmp_path, 8_000) == 8_000
    assert (tmp_path / INCARNATION_FILE).read_text() == "8000\n"


@pytest.mark.parametrize(
    "damage", [b"", b"soon", b"-4", b"\xff\xfe", str(incarnation_max).encode()]
)
def test_what_is_damaged_is_replaced(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / INCARNATION_FILE).write_bytes(damage)
    assert next_incarnation(tmp_path, 5_000) == 5_000
    assert next_incarnation(tmp_path, 4_000) == 5_001


def test_a_full_disk_is_no_reason_not_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    assert next_incarnation(tmp_path, 5_000) == 5_000
    with monkeypatch.context() as patched:
        patched.setattr(registry, "replace_file", full)
        assert next_incarnation(tmp_path, 4_000) == 5_001
    assert next_incarnation(tmp_path, 4_000) == 5_001, "nothing was kept"


async def greeted(settings: Config) -> int:
    """Start a node, and hear as which of its processes it greets."""
    node = Node(settings)
    await node.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.node.port)
        frames = FrameDecoder().feed(await reader.read(4096))
        writer.close()
    finally:
        await node.stop()
    hello = decode_hello(frames[0])
    assert hello is not None
    return hello.incarnation


def test_a_node_whose_wall_is_set_back_is_still_the_later_one(tmp_path: Path) -> None:
    wall = tmp_path / "wall"
    place = NodeSettings(
        id=NodeId("n0"), port=free_base_port(), data=str(tmp_path / "n0"), roles=()
    )
    settings = Config(
        node=place,
        debug=DebugSettings(wall=str(wall)),
    )
    found = []
    for shift_ms in (0, -HOUR_MS, HOUR_MS, -HOUR_MS):
        wall.write_text(str(shift_ms))
        found.append(asyncio.run(greeted(settings)))
    assert found == sorted(set(found))
    assert msgspec.json.decode((tmp_path / "n0" / INCARNATION_FILE).read_bytes()) == found[-1] >> 20
