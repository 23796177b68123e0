"""Many operations at once: all of them or none, and reads as at one moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.contract.keeper.world import World, in_loop

from motet.client.keeper.client import OPEN, Operation, flags
from motet.client.keeper.errors import (
    BadVersion,
    KeeperMultiFailed,
    NodeExists,
    NoNode,
)
from motet.format.zookeeper.messages import (
    Check,
    Create,
    Create2,
    Delete,
    GetChildren,
    SetData,
    Stat,
)


@in_loop
async def test_all_is_done_at_once_and_each_has_its_outcome(world: World) -> None:
    async with world.keeper() as keeper:
        old = await keeper.create(world.path("old"))
        path, numbered = world.path("node"), world.path("s-")
        created, sequential, stat, checked, deleted, last = await keeper.multi(
            [
                Create(path, b"1", OPEN, 0),
                Create(numbered, b"", OPEN, flags(False, True)),
                SetData(path, b"2", 0),
                Check(path, 1),
                Delete(old, 0),
                Create2(f"{path}/child", b"", OPEN, 0),
            ]
        )
        assert created == path
        assert sequential == f"{numbered}0000000002"
        assert isinstance(stat, Stat)
        assert (stat.version, stat.data_length) == (1, 1)
        assert checked is None
        assert deleted is None
        # ZooKeeper answers a create2 in a multi as a create; ours adds the stat.
        assert (last[0] if isinstance(last, tuple) else last) == f"{path}/child"
        child = await keeper.exists(f"{path}/child")
        assert child is not None
        assert stat.czxid == stat.mzxid == child.czxid  # one change of the tree
        assert await keeper.exists(old) is None


REFUSED: dict[type[Exception], tuple[int, Callable[[str], Operation]]] = {
    NoNode: (0, lambda node: Delete(f"{node}-none", -1)),
    BadVersion: (1, lambda node: Check(node, 7)),
    NodeExists: (2, lambda node: Create(node, b"", OPEN, 0)),
}


@pytest.mark.parametrize("error", REFUSED)
def test_one_that_is_refused_is_named_and_nothing_is_done(
    world: World, error: type[Exception]
) -> None:
    world.root += f"-{error.__name__}"
    index, refused = REFUSED[error]

    @in_loop
    async def test(world: World) -> None:
        async with world.keeper() as keeper:
            node, before = await keeper.create2(world.path("node"), b"before")
            other = Create(world.path("other"), b"", OPEN, 0)
            operations: list[Operation] = [SetData(node, b"after", 0), other]
            operations.insert(index, refused(node))
            with pytest.raises(KeeperMultiFailed) as raised:
                await keeper.multi(operations)
            assert raised.value.index == index
            assert type(raised.value.error) is error
            assert await keeper.get(node) == (b"before", before)
            assert await keeper.children(world.root) == ["node"]

    test(world)


@in_loop
async def test_reads_of_many_nodes_each_with_its_own_fate(world: World) -> None:
    async with world.keeper() as keeper:
        await keeper.create(world.path("a"), b"1")
        zxid, (data, missing, names) = await keeper.multi_read(
            [world.path("a"), world.path("none"), GetChildren(world.root, False)]
        )
        assert isinstance(data, tuple)
        assert data == await keeper.get(world.path("a"))
        assert zxid >= data[1].mzxid
        assert isinstance(missing, NoNode)
        assert names == ["a"]
