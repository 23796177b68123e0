"""The tables of a node in the process of the test: one node with its own keeper, as a folder has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.node.made_parts import SHARD, TABLE, MadePart, made_part, random_bytes, spoil
from tests.node.nodes import SECONDS_MAX

from motet.client.keeper.client import OPEN, KeeperClient
from motet.client.link import Link
from motet.core.mergetree.conversation import TablesAnswer
from motet.core.mergetree.messages import (
    BlockInserted,
    InsertBlock,
    ListParts,
    PartsListed,
    TableRefused,
)
from motet.core.mergetree.paths import (
    NAMED,
    ShardPaths,
    definition_path,
    hosted_path,
    layout,
    node_path,
    table_root,
)
from motet.core.mergetree.state import Phase
from motet.core.metadata.definitions import TableDefinition, encode_table_definition
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId, Zxid
from motet.node.assembly import NodeTables
from motet.node.driver import Driver
from motet.node.embedded_keeper import EmbeddedKeeper
from motet.node.hosting import Hosting
from motet.node.status import MachineStatus
from motet.node.table_status import replica_status, table_families
from motet.real.disk import RealDisk
from motet.real.in_process import InProcessNetwork
from motet.real.part_files import PartState, part_folder
from motet.real.process import RealEntropy, RealTime

OWN = NodeId("embedded")
ADDRESS = Address(OWN)
ONE = made_part(1, random_bytes(5_000))


class Folder:
    """A running node, its tables, and a way to ask them."""

    def __init__(
        self,
        tables: NodeTables,
        driver: Driver,
        network: InProcessNetwork,
        keeper: EmbeddedKeeper,
    ) -> None:
        self.tables, self.driver, self.keeper = tables, driver, keeper
        self.link: Link[TablesAnswer] = Link(
            {}, FrameKind.TABLES, TablesAnswer, network=network.client
        )
        self._tokens = 0

    async def insert(self, part: MadePart) -> BlockInserted:
        self.tables.folders.write(part.key, part.header, part.block, PartState.ARRIVED)
        self._tokens += 1
        token = f"t{self._tokens}"
        answer = await self.link.ask(
            ADDRESS,
            lambda number: InsertBlock(TABLE, SHARD, RequestId(number), part.header, 1, token, "c"),
            SECONDS_MAX,
        )
        assert isinstance(answer, BlockInserted), answer
        return answer

    async def listed(self, head: int, version: Zxid) -> PartsListed | TableRefused:
        answer = await self.link.ask(
            ADDRESS,
            lambda number: ListParts(TABLE, SHARD, RequestId(number), head, version),
            SECONDS_MAX,
        )
        assert isinstance(answer, PartsListed | TableRefused)
        return answer

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(int(SECONDS_MAX / 0.02)):
            if holds():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("it does not come to that")

    async def until_active(self) -> None:
        def is_active() -> bool:
            replica = self.tables.machine.replicas.get((TABLE, SHARD))
            return replica is not None and replica.phase is Phase.ACTIVE

        await self.until(is_active)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Folder]:
    """Open the folder; its table is created if it has none."""
    async with AsyncExitStack() as opened:
        disks = [RealDisk(folder / name) for name in ("keeper", "tables")]
        for disk in disks:
            opened.callback(disk.close)
        keeper = EmbeddedKeeper(ADDRESS, "motet", disks[0], RealTime())
        is_new = not keeper.is_there
        keeper.prepare()
        tables = NodeTables(OWN, folder, keeper.client, acl=OPEN)
        hostings: list[Hosting[Any]] = [tables.hosting(disks[1]), keeper.hosting()]
        driver = Driver(hostings, time=RealTime(), entropy=RealEntropy(), check_invariants=True)
        network = InProcessNetwork(ADDRESS, cluster="motet", wake=driver.wake)
        opened.push_async_callback(network.stop)
        driver.start(network)
        opened.callback(driver.stop)
        keeper.start(driver)
        opened.push_async_callback(keeper.server.stop)
        if is_new:
            async with keeper.client() as client:
                await create_table(client)
        tables.start(driver)
        opened.push_async_callback(tables.stop)
        one = Folder(tables, driver, network, keeper)
        await opened.enter_async_context(one.link)
        await one.until_active()
        yield one


async def create_table(keeper: KeeperClient) -> None:
    for path, data in layout(TABLE, SHARD + 1, (OWN,)):
        if path == table_root(TABLE):
            await keeper.ensure_path(path.rpartition("/")[0])
        await keeper.create(path, NAMED if path == table_root(TABLE) else data)
    definition = TableDefinition(TABLE, b"", (), ("a",), shards=SHARD + 1)
    await keeper.create(definition_path(TABLE), encode_table_definition(definition))
    await keeper.ensure_path(node_path(OWN))
    await keeper.create(hosted_path(OWN, TABLE), msgspec.json.encode([SHARD]))


def with_folder(folder: Path, check: Callable[[Folder], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running(folder) as one:
            await check(one)

    asyncio.run(main())


def test_what_is_inserted_is_there_after_a_restart(tmp_path: Path) -> None:
    version = Zxid(0)

    async def insert(one: Folder) -> None:
        nonlocal version
        version = (await one.insert(ONE)).version
        assert part_folder(tmp_path / "parts", ONE.key, PartState.STORED).is_dir()

    async def look(one: Folder) -> None:
        answer = await one.listed(0, version)
        assert isinstance(answer, PartsListed)
        assert [part.header for part in answer.parts] == [ONE.header]

    with_folder(tmp_path, insert)
    with_folder(tmp_path, look)


def test_the_only_copy_that_is_damaged_stays_and_readers_are_told(tmp_path: Path) -> None:
    async def check(one: Folder) -> None:
        version = (await one.insert(ONE)).version
        file = part_folder(tmp_path / "parts", ONE.key, PartState.STORED) / "part.parquet"
        spoil(file)
        assert not one.tables.folders.has(ONE.key, ONE.header, PartState.STORED)
        one.tables.on_damaged(ONE.key)
        machine = one.tables.machine
        broken = machine.replicas[TABLE, SHARD].core.state.broken
        await one.until(lambda: any(each.is_only for each in broken.values()))
        answer = await one.listed(0, version)
        assert isinstance(answer, TableRefused)
        assert "damaged" in answer.what
        assert file.exists()

    with_folder(tmp_path, check)


def test_status_and_metrics_say_how_it_stands(tmp_path: Path) -> None:
    async def check(one: Folder) -> None:
        await one.insert(ONE)
        replicas = one.tables.machine.replicas
        await one.until(lambda: replica_status(replicas[TABLE, SHARD]).lag == 0)
        hosted = one.driver.hosted[0]
        status = MachineStatus(True, None, hosted.hosting.describe(hosted.machine))
        told = msgspec.json.decode(msgspec.json.encode(status))["detail"]
        replica = told["replicas"][f"{TABLE}/{SHARD}"]
        assert (told["active"], told["has_session"]) == (1, True)
        assert (replica["phase"], replica["parts"], replica["lag"]) == ("active", 1, 0)
        assert replica["size_bytes"] == len(ONE.data)
        values = {
            sample.name: sample.value
            for family in table_families(one.tables.machine)
            for sample in family.samples
        }
        assert values["motet_table_parts"] == 1
        assert values["motet_table_replicas_active"] == 1
        assert values["motet_table_oldest_queued"] == -1

    with_folder(tmp_path, check)


def test_the_folder_keeps_its_id_and_has_a_new_token_each_time(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    async def check(one: Folder) -> None:
        told.append((one.tables.machine.node.memory.folder, one.tables.token))
        async with one.keeper.client() as keeper:
            path = ShardPaths(TABLE, SHARD).replica(OWN).is_active
            assert (await keeper.get(path))[0].decode() == told[-1][0]

    with_folder(tmp_path, check)
    with_folder(tmp_path, check)
    (first, token), (second, other) = told
    assert first == second
    assert token != other
