"""What replicas ask to be done with the bytes of their parts, with real files and real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.node.broken_servers import cutting, silent
from tests.node.made_parts import (
    SHARD,
    TABLE,
    MadePart,
    made_part,
    no_room,
    put_on_disk,
    random_bytes,
    spoil,
)
from tests.node.nodes import SECONDS_MAX, free_base_port
from tests.node.part_server import PartServer, part_server

from motet.client import part_client
from motet.client.link import HTTP_PORT_OFFSET
from motet.core.machine import Message, Work
from motet.core.mergetree.messages import PartBytes
from motet.core.mergetree.work import (
    Arrive,
    Clear,
    Detach,
    Fetch,
    Forget,
    Hold,
    Keep,
    LookAtDisk,
    LookAtParts,
    Looked,
    Release,
    Task,
)
from motet.ids import NodeId, PartId, WorkId
from motet.node import part_draft
from motet.node.part_folders import PartFolders
from motet.node.table_work import TableWork, file_threads
from motet.real import durable
from motet.real.part_files import PartState, part_folder

OTHER = NodeId("n1")
ONE = made_part(1, random_bytes(10_000))
LARGE = made_part(2, random_bytes(9_500_000))
PLACE = (TABLE, SHARD)
STORED, STAGED, ARRIVED = PartState.STORED, PartState.STAGED, PartState.ARRIVED

Ended = tuple[Message | None, str | None]


class Shop:
    """A workshop in the loop of the test; what it has told, in order."""

    def __init__(self, root: Path, endpoint: str | None) -> None:
        self.folders = PartFolders(root)
        self.work = TableWork(self.folders, lambda _: endpoint)
        self.told: list[int] = []
        self._next = 0

    def begin(self, task: Task) -> asyncio.Future[Ended]:
        """How it ends, once."""
        number, self._next = self._next, self._next + 1
        ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

        def tell(result: Message | None, why: str | None) -> None:
            self.told.append(number)
            ended.set_result((result, why))  # a second time is an error

        self.work.begin(Work(WorkId(number), task), tell)
        return ended

    async def do(self, task: Task) -> str | None:
        """Why it failed; None when it did not."""
        return (await asyncio.wait_for(self.begin(task), SECONDS_MAX))[1]

    async def look(self) -> Looked:
        """What is on disk, with what the manifests of stored parts say."""
        found, _ = await asyncio.wait_for(self.begin(LookAtDisk(*PLACE)), SECONDS_MAX)
        assert isinstance(found, Looked)
        task = LookAtParts(*PLACE, found.named)
        read, _ = await asyncio.wait_for(self.begin(task), SECONDS_MAX)
        assert isinstance(read, Looked)
        return msgspec.structs.replace(read, aside=found.aside, staged=found.staged)

    def has(self, part: MadePart, state: PartState) -> bool:
        return self.folders.has(part.key, part.header, state)


def with_shop(
    root: Path, check: Callable[[Shop], Awaitable[None]], endpoint: str | None = None
) -> None:
    async def main() -> None:
        shop = Shop(root, endpoint)
        try:
            await check(shop)
        finally:
            shop.work.stop()

    asyncio.run(main())


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own" / "parts"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[PartServer]:
    with part_server(tmp_path / "other" / "parts") as served:
        yield served


class TestKeeping:
    def test_of_bytes_that_come_with_it(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            assert await shop.do(Keep(*PLACE, ONE.header, ONE.block)) is None
            assert (await shop.look()).stored == (ONE.header,)
            assert await shop.do(Keep(*PLACE, ONE.header, ONE.block)) is None, "again is fine"
            assert await shop.do(Keep(*PLACE, ONE.header)) is None

        with_shop(own, check)

    def test_of_bytes_that_have_arrived(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            assert await shop.do(Arrive(*PLACE, ONE.header, ONE.block)) is None
            looked = await shop.look()
            assert (looked.stored, looked.aside) == ((), (ONE.header,))
            assert await shop.do(Keep(*PLACE, ONE.header)) is None
            looked = await shop.look()
            assert (looked.stored, looked.aside) == ((ONE.header,), ())

        with_shop(own, check)

    def test_of_nothing_fails(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            why = await shop.do(Keep(*PLACE, ONE.header))
            assert why is not None
            assert "no bytes of part" in why

        with_shop(own, check)

    def test_of_other_bytes_fails(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            block = PartBytes("parquet", ONE.manifest, b"other rows")
            assert "are not part" in str(await shop.do(Keep(*PLACE, ONE.header, block)))
            wrong = made_part(1, b"other rows")
            assert "something else" in str(await shop.do(Keep(*PLACE, ONE.header, wrong.block)))
            assert await shop.look() == Looked((), ())

        with_shop(own, check)

    def test_replaces_what_is_damaged_from_what_was_put_aside(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            await shop.do(Keep(*PLACE, ONE.header, ONE.block))
            await shop.do(Detach(*PLACE, ONE.key.part, "not registered"))
            spoil(put_on_disk(own, ONE) / "part.parquet")
            assert await shop.do(Keep(*PLACE, ONE.header)) is None
            assert shop.has(ONE, STORED)

        with_shop(own, check)

    def test_with_a_full_disk_fails_and_leaves_nothing(
        self, own: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def check(shop: Shop) -> None:
            with monkeypatch.context() as patch:
                patch.setattr(part_draft, "write_all", no_room)
                why = await shop.do(Keep(*PLACE, ONE.header, ONE.block))
            assert why is not None
            assert "No space left" in why
            assert await shop.look() == Looked((), ())
            assert await shop.do(Keep(*PLACE, ONE.header, ONE.block)) is None

        with_shop(own, check)


class TestHolding:
    @pytest.mark.parametrize("state", [None, STORED, ARRIVED, PartState.DETACHED])
    def test_what_is_here(self, own: Path, state: PartState | None) -> None:
        async def check(shop: Shop) -> None:
            block = ONE.block if state is None else None
            if state is not None:
                shop.folders.write(ONE.key, ONE.header, ONE.block, state)
            assert await shop.do(Hold(*PLACE, ONE.header, block)) is None
            assert (await shop.look()).staged == (ONE.header,)
            assert shop.has(ONE, STORED) == (state is STORED)
            assert await shop.do(Hold(*PLACE, ONE.header)) is None, "again is fine"
            assert await shop.do(Release(*PLACE, ONE.key.part)) is None
            assert (await shop.look()).staged == ()

        with_shop(own, check)

    def test_what_another_has(self, own: Path, source: PartServer) -> None:
        async def check(shop: Shop) -> None:
            assert "no bytes" in str(await shop.do(Hold(*PLACE, ONE.header)))
            assert await shop.do(Hold(*PLACE, ONE.header, None, OTHER)) is None
            assert (await shop.look()).staged == (ONE.header,)

        source.folders.write(ONE.key, ONE.header, ONE.block, STAGED)
        with_shop(own, check, source.endpoint)


class TestFetching:
    def test_stores_what_another_has(self, own: Path, source: PartServer) -> None:
        async def check(shop: Shop) -> None:
            assert await shop.do(Fetch(*PLACE, LARGE.header, OTHER)) is None
            assert shop.has(LARGE, STORED)
            assert await shop.do(Fetch(*PLACE, LARGE.header, OTHER)) is None

        put_on_disk(source.folders.root, LARGE)
        with_shop(own, check, source.endpoint)

    def test_replaces_what_is_damaged_here(self, own: Path, source: PartServer) -> None:
        async def check(shop: Shop) -> None:
            assert await shop.do(Fetch(*PLACE, LARGE.header, OTHER)) is None
            assert shop.has(LARGE, STORED)
            assert part_folder(own, LARGE.key, PartState.DETACHED).is_dir()

        put_on_disk(source.folders.root, LARGE)
        spoil(put_on_disk(own, LARGE) / "part.parquet")
        with_shop(own, check, source.endpoint)

    def test_fails_when_it_is_not_there_or_not_whole(self, own: Path, source: PartServer) -> None:
        async def check(shop: Shop) -> None:
            assert "there is no part" in str(await shop.do(Fetch(*PLACE, ONE.header, OTHER)))
            assert "is damaged" in str(await shop.do(Fetch(*PLACE, LARGE.header, OTHER)))
            other = made_part(3, b"other rows")
            assert "something else" in str(await shop.do(Fetch(*PLACE, other.header, OTHER)))
            assert await shop.look() == Looked((), ())

        spoil(put_on_disk(source.folders.root, LARGE) / "part.parquet")
        put_on_disk(source.folders.root, made_part(3, b"rows"))
        with_shop(own, check, source.endpoint)

    def test_fails_when_nobody_is_there(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            assert "cannot be reached" in str(await shop.do(Fetch(*PLACE, ONE.header, OTHER)))

        with_shop(own, check, f"127.0.0.1:{free_base_port()}")

        async def check_unknown(shop: Shop) -> None:
            assert "not known where n1 is" in str(await shop.do(Fetch(*PLACE, ONE.header, OTHER)))

        with_shop(own, check_unknown)

    def test_goes_on_where_the_connection_broke(self, own: Path, source: PartServer) -> None:
        async def check(shop: Shop) -> None:
            assert await shop.do(Fetch(*PLACE, LARGE.header, OTHER)) is None
            assert shop.has(LARGE, STORED)

        put_on_disk(source.folders.root, LARGE)
        with cutting(source.port, after_bytes=2_500_000) as (port, given):
            with_shop(own, check, f"127.0.0.1:{port}")
        # The last connection ends by itself, some time later.
        assert len(given) >= 3, "the connection was cut three times on the way"
        assert sum(given) < len(LARGE.data) * 1.6, "nothing is fetched from the beginning again"

    def test_is_broken_off_when_the_node_stops(self, own: Path) -> None:
        async def check(shop: Shop) -> None:
            shop.begin(Fetch(*PLACE, LARGE.header, OTHER))
            await asyncio.to_thread(asked.wait, SECONDS_MAX)
            shop.work.stop()

        port, asked = free_base_port(), threading.Event()
        with silent(port + HTTP_PORT_OFFSET, asked):
            with_shop(own, check, f"127.0.0.1:{port}")


def test_tasks_about_one_part_are_done_in_their_order(own: Path) -> None:
    async def check(shop: Shop) -> None:
        tasks: list[Task] = []
        for _ in range(20):
            tasks += [Keep(*PLACE, ONE.header, ONE.block), Detach(*PLACE, ONE.key.part, "why")]
            tasks += [Keep(*PLACE, ONE.header), Forget(*PLACE, ONE.key.part)]
        ended = [shop.begin(task) for task in tasks]
        assert all(why is None for _, why in await asyncio.gather(*ended))
        assert shop.told == list(range(len(tasks)))
        assert await shop.look() == Looked((), ())
        assert shop.work.busy == 0

    with_shop(own, check)


def test_others_do_not_wait_for_a_part_that_takes_long(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(shop: Shop) -> None:
        slow = shop.begin(Keep(*PLACE, ONE.header, ONE.block))
        quick = [made_part(n, b"rows") for n in range(2, 2 + 2 * file_threads)]
        ended = [shop.begin(Keep(*PLACE, part.header, part.block)) for part in quick]
        assert all(why is None for _, why in await asyncio.gather(*ended))
        assert not slow.done()
        go_on.set()
        assert (await slow)[1] is None

    go_on, write = threading.Event(), durable.write_all

    def wait(fd: int, data: bytes, offset: int) -> None:
        if data == ONE.data:
            assert go_on.wait(SECONDS_MAX)
        write(fd, data, offset)

    monkeypatch.setattr(part_draft, "write_all", wait)
    with_shop(own, check)


def test_a_replica_of_a_dropped_table_is_cleared(own: Path) -> None:
    async def check(shop: Shop) -> None:
        assert await shop.do(Keep(*PLACE, ONE.header, ONE.block)) is None
        assert await shop.do(Clear(*PLACE)) is None
        assert await shop.look() == Looked((), ())

    with_shop(own, check)


def test_ids_that_are_none_are_refused(own: Path) -> None:
    async def check(shop: Shop) -> None:
        assert "not the key of a part" in str(await shop.do(Forget(*PLACE, PartId("../x"))))

    with_shop(own, check)


def test_a_node_that_answers_something_else_is_not_believed(
    tmp_path: Path, source: PartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(shop: Shop) -> None:
        assert "gives" in str(await shop.do(Fetch(*PLACE, LARGE.header, OTHER)))

    folder = put_on_disk(source.folders.root, LARGE)
    longer = made_part(2, LARGE.data + b"more")
    (folder / "part.parquet").write_bytes(longer.data)
    (folder / "manifest").write_bytes(longer.manifest)
    monkeypatch.setattr(part_client.PartClient, "manifest", lambda *_: LARGE.manifest)
    with_shop(tmp_path / "own" / "parts", check, source.endpoint)
