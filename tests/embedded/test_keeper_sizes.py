"""The keeper of a folder carries many nodes at one price, and its sizes are those it was made with."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.core.keeper.keepers import PASSWORD, entry
from tests.embedded.keeper_tree import tree_of

import motet
from motet.core.keeper.acl import OPEN_ACL
from motet.core.keeper.ids import Generation
from motet.core.keeper.machine import Keeper
from motet.core.keeper.node import Node
from motet.core.keeper.operations import OpenSession, Write, encode_batch
from motet.core.vsr.grid import block_overhead_bytes
from motet.embedded import ADDRESS, CLUSTER
from motet.errors import BadInput, MotetError
from motet.format.zookeeper.messages import Create
from motet.ids import ReplicaIndex, SessionId
from motet.node import embedded_keeper
from motet.node.embedded_keeper import FORMER, LAYOUT, EmbeddedKeeper, Layout
from motet.node.keeper import cluster_id
from motet.node.replica_files import Format
from motet.real.disk import RealDisk
from motet.real.process import RealTime

SCHEMA = pa.schema([("sku", pa.string()), ("qty", pa.int64())])
NEW_BYTES_MAX = 11 << 20
QUIET_SECONDS = 2.5
PARTS = 10_000


def checkpoint_bytes(layout: Layout) -> list[int]:
    """What each checkpoint has to write of the pages, while a part after the other is created."""
    keeper, op, found = Keeper(layout.keeper), 2, []
    keeper.apply(entry(1, encode_batch([OpenSession(10_000, PASSWORD)])))
    keeper.apply(entry(2, encode_batch([_create("/parts", b"")])))
    for number in range(PARTS):
        op += 1
        keeper.apply(entry(op, encode_batch([_create(f"/parts/part-{number * 7919}", bytes(200))])))
        if op % layout.sizes.checkpoint_ops == 0:
            found.append(sum(len(keeper.take_page(each) or b"") for each in keeper.begin_pages()))
    return found


def _create(path: str, data: bytes) -> Write:
    return Write(SessionId(1), Generation(1), Create(path, data, OPEN_ACL, 0))


def test_what_an_insert_adds_to_a_checkpoint_does_not_grow_with_what_is_there() -> None:
    found = checkpoint_bytes(LAYOUT)
    per_insert = [each / LAYOUT.sizes.checkpoint_ops for each in found]
    assert max(per_insert) < LAYOUT.sizes.block_bytes / 2, "less than its own block"
    former = FORMER[0]
    grown = [each / former.sizes.checkpoint_ops for each in checkpoint_bytes(former)]
    assert grown[-1] > 20 * per_insert[-1], "with few pages each checkpoint wrote a part of all"


def test_a_new_folder_is_small(tmp_path: Path) -> None:
    motet.open(tmp_path).close()
    files = [path for path in (tmp_path / "keeper").iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < NEW_BYTES_MAX


@pytest.mark.parametrize("former", FORMER, ids=lambda former: f"slots-{former.sizes.slots}")
def test_a_folder_that_was_made_with_former_sizes_is_used_with_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: Layout
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(embedded_keeper, "LAYOUT", former)
        with motet.open(tmp_path) as db:
            for number in range(30):  # past a checkpoint
                db.create_stream(f"before-{number}")
    before = (tmp_path / "keeper" / "format.json").read_bytes()
    with motet.open(tmp_path) as db:
        for number in range(30):
            db.create_stream(f"after-{number}")
    with motet.open(tmp_path) as db:
        names = [f"{when}-{number}" for when in ("after", "before") for number in range(30)]
        assert sorted(each.name for each in db.streams()) == sorted(names)
    assert (tmp_path / "keeper" / "format.json").read_bytes() == before
    with_former = EmbeddedKeeper(
        ADDRESS, CLUSTER, disk := RealDisk(tmp_path / "keeper"), RealTime()
    )
    assert with_former.limits.reply_bytes_max == former.sizes.body_bytes_max
    disk.close()
    assert sum(path.startswith("/motet/streams/") for path in tree_of(tmp_path)) == 60


def test_a_folder_of_sizes_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    motet.open(tmp_path).close()
    file = tmp_path / "keeper" / "format.json"
    told = json.loads(file.read_text())
    told["sizes"]["slots"] = 1024
    file.write_text(json.dumps(told))
    with pytest.raises(BadInput, match="formatted with other sizes: slots 1024 and not 128"):
        motet.open(tmp_path)


def test_a_keeper_is_full_before_its_grid_has_no_room_for_a_checkpoint() -> None:
    keeper = LAYOUT.keeper
    config = Format(cluster_id(CLUSTER), ReplicaIndex(0), (ADDRESS,), LAYOUT.sizes).config()
    blocks_per_op = 2 + 2 * config.body_bytes_max // config.block_bytes
    blocks_max = (config.blocks_max - config.ops_beyond_checkpoint * blocks_per_op) // 2
    numbers_bytes = 16 + len(msgspec.msgpack.encode([1 << 62] * len(Node.__struct_fields__)))
    bytes_max = keeper.tree_bytes_max + keeper.nodes_max * numbers_bytes
    room_bytes = config.block_bytes - block_overhead_bytes
    assert 2 * keeper.node_pages + bytes_max // room_bytes < blocks_max


def create_many(db: motet.Database) -> None:
    for number in range(30):
        db.create_stream(f"more-{number}")


def test_a_keeper_that_is_full_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = msgspec.structs.replace(LAYOUT, nodes_max=20)
    monkeypatch.setattr(embedded_keeper, "LAYOUT", full)
    with motet.open(tmp_path) as db:
        for number in range(5):
            db.create_stream(f"orders-{number}")
        with pytest.raises(MotetError, match="KEEPER_FULL the keeper is full, and refused"):
            create_many(db)
        assert len(db.streams()) >= 5
        for name in [each.name for each in db.streams()]:
            db.stream(name).append(key="a", value=b"b")


def test_an_idle_folder_writes_nothing(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        db.create_stream("orders")
        db.create_table("sales", SCHEMA, order_by=["sku"])
        time.sleep(QUIET_SECONDS)  # what follows a write is written, too
        before = written(tmp_path / "keeper")
        time.sleep(QUIET_SECONDS)
        assert written(tmp_path / "keeper") == before


def written(folder: Path) -> dict[str, tuple[int, int]]:
    stats = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}
