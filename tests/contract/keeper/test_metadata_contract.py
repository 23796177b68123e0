"""What cores rely on when they use the keeper: of ours, of a ZooKeeper and of a simulated one alike."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.contract.keeper.metadata_cores import Core, PortCore, Stage, simulated_stage
from tests.contract.keeper.servers import SERVERS
from tests.contract.keeper.world import PATIENCE_SECONDS, World

from motet.core.metadata.messages import (
    ANY_VERSION,
    Absent,
    Changed,
    Check,
    Children,
    Conflict,
    Create,
    Delete,
    Deposed,
    Elected,
    Failed,
    Found,
    Get,
    MetadataAnswer,
    Names,
    NodeStat,
    Read,
    ReadDone,
    ReadOperation,
    Refusal,
    SessionOver,
    Set,
    Stand,
    Standing,
    Watch,
    Watching,
    WatchOf,
    Write,
    WriteOperation,
    Written,
)
from motet.core.metadata.zookeeper import why_too_large
from motet.ids import SessionId

PASSING_SECONDS = 0.3


@pytest.fixture(params=["simulated", *SERVERS])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    name = request.node.originalname.removeprefix("test_")
    if request.param == "simulated":
        yield simulated_stage(f"/contract/{name}")
        return
    world = World(request.getfixturevalue(f"{request.param}_server"), f"/metadata/{name}")
    yield Stage(world.root, lambda: PortCore(world), asyncio.sleep)


def in_loop(test: Callable[[Stage], Awaitable[None]]) -> Callable[[Stage], None]:
    async def bounded(stage: Stage) -> None:
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            try:
                await test(stage)
            finally:
                await stage.close()

    def run(stage: Stage) -> None:
        asyncio.run(bounded(stage))

    functools.update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def told_of(changed: Changed) -> tuple[SessionId, str]:
    """Whose watch it was, and what has changed; the zxid is from when on the next change is told."""
    assert changed.zxid >= 0
    return changed.session, changed.path


async def write(core: Core, *operations: WriteOperation) -> MetadataAnswer:
    return await core.ask(lambda number, session: Write(number, session, operations))


async def read(core: Core, *operations: ReadOperation) -> ReadDone:
    answer = await core.ask(lambda number, session: Read(number, session, operations))
    assert isinstance(answer, ReadDone), answer
    return answer


async def written(core: Core, *operations: WriteOperation) -> Written:
    answer = await write(core, *operations)
    assert isinstance(answer, Written), answer
    return answer


async def stat_of(core: Core, path: str) -> NodeStat:
    found = (await read(core, Get(path))).results[0]
    assert isinstance(found, Found), found
    return found.stat


async def watch(core: Core, path: str, of: WatchOf) -> None:
    answer = await core.ask(lambda number, session: Watch(number, session, path, of))
    assert isinstance(answer, Watching), answer


async def stand(core: Core, path: str, name: str) -> str:
    answer = await core.ask(lambda number, session: Stand(number, session, path, name))
    assert isinstance(answer, Standing), answer
    return answer.entry


def conflict(answer: MetadataAnswer) -> tuple[int, Refusal]:
    assert isinstance(answer, Conflict), answer
    return answer.index, answer.why


@in_loop
async def test_what_is_written_is_read_with_its_stat(stage: Stage) -> None:
    core, path = await stage.core(), stage.path("a")
    created = await written(core, Create(path, b"one"), Create(f"{path}/child"))
    changed = await written(core, Set(path, b"two", 0))
    assert (created.results, changed.results) == ((path, f"{path}/child"), (1,))
    found = await read(core, Get(path), Children(path), Get(stage.path("none")), Children("/none"))
    node, names, *absent = found.results
    assert isinstance(node, Found)
    assert (node.path, node.data, node.stat.version, node.stat.children) == (path, b"two", 1, 1)
    assert (node.stat.czxid, node.stat.mzxid) == (created.zxid, changed.zxid)
    assert node.stat.owner == 0
    assert 0 <= node.stat.ctime_ms <= node.stat.mtime_ms
    assert names == Names(path, ("child",))
    assert absent == [Absent(stage.path("none")), Absent("/none")]
    assert created.zxid < changed.zxid <= found.zxid


@in_loop
async def test_a_write_is_done_as_a_whole_or_says_what_was_refused(stage: Stage) -> None:
    core, path = await stage.core(), stage.path("a")
    await written(core, Create(path, b"one"), Create(f"{path}/child"))
    refused: dict[tuple[int, Refusal], WriteOperation] = {
        (1, Refusal.BAD_VERSION): Set(path, b"two", 7),
        (1, Refusal.NODE_EXISTS): Create(path),
        (1, Refusal.NO_NODE): Check(stage.path("none"), ANY_VERSION),
        (1, Refusal.NOT_EMPTY): Delete(path, 0),
    }
    for why, operation in refused.items():
        assert conflict(await write(core, Create(stage.path("b")), operation)) == why
    assert conflict(await write(core, Create(stage.path("none/below")))) == (0, Refusal.NO_NODE)
    assert conflict(await write(core, Check(path, 1), Delete(path, 0))) == (0, Refusal.BAD_VERSION)
    found = await read(core, Get(path), Get(stage.path("b")))
    assert isinstance(found.results[0], Found)
    assert (found.results[0].data, found.results[0].stat.version) == (b"one", 0)
    assert found.results[1] == Absent(stage.path("b"))
    await written(core, Check(path, 0), Delete(f"{path}/child", ANY_VERSION), Delete(path, 0))
    assert (await read(core, Get(path))).results == (Absent(path),)


@in_loop
async def test_sequential_names_are_in_the_answer_of_their_multi(stage: Stage) -> None:
    core, log = await stage.core(), stage.path("log")
    await written(core, Create(log))
    entry = Create(f"{log}/log-", b"entry", sequential=True)
    first = await written(core, Check(log, 0), entry, entry)
    assert first.results == (None, f"{log}/log-0000000000", f"{log}/log-0000000001")
    await written(core, Delete(f"{log}/log-0000000001", 0))
    third = await written(core, entry)
    assert third.results == (f"{log}/log-0000000002",), "a number is never given twice"
    found = (await read(core, Get(log))).results[0]
    assert isinstance(found, Found)
    # Trimming does not change what follows from the stat: the number of the last entry.
    assert (found.stat.cversion + found.stat.children) // 2 - 1 == 2


@in_loop
async def test_what_is_too_large_for_one_write_is_known_before_and_refused(stage: Stage) -> None:
    core, path = await stage.core(), stage.path("a")
    await written(core, Create(path))
    large = (Set(path, bytes(600_000), 0), Set(path, bytes(600_000), 1))
    assert why_too_large(large) is not None
    answer = await write(core, *large)
    assert isinstance(answer, Failed), answer
    assert answer.code == "KEEPER_TOO_LARGE"
    assert (await written(core, Check(path, 0))).results == (None,), "nothing was done"
    most = next(n for n in range(1, 5_000) if why_too_large((Set(path, b"", -1),) * (n + 1)))
    sets = tuple(Set(path, b"%d" % number, number) for number in range(most))
    assert (await written(core, *sets)).results == tuple(range(1, most + 1))


@in_loop
async def test_a_read_is_at_one_moment(stage: Stage) -> None:
    reader, writer = await stage.core(), await stage.core()
    one, other = stage.path("one"), stage.path("other")
    await written(writer, Create(one, b"0"), Create(other, b"0"))
    for number in range(1, 20):
        data = str(number).encode()
        done, found = await asyncio.gather(
            written(writer, Set(one, data, number - 1), Set(other, data, number - 1)),
            read(reader, Get(one), Get(other)),
        )
        first, second = found.results
        assert isinstance(first, Found)
        assert isinstance(second, Found)
        assert (first.data, first.stat.mzxid) == (second.data, second.stat.mzxid)
        assert (found.zxid >= done.zxid) == (first.data == data)
        assert first.stat.mzxid <= found.zxid


@in_loop
async def test_times_and_counts_of_a_stat_are_those_of_the_keeper(stage: Stage) -> None:
    core, other = await stage.core(), await stage.core()
    path = stage.path("lease")
    made = await written(core, Create(path, b""), Create(f"{path}/a"), Create(f"{path}/b"))
    first = await stat_of(other, path)
    await stage.wait(PASSING_SECONDS)
    renewed = await written(other, Set(path, b"", 0))
    second = await stat_of(core, path)
    assert first.ctime_ms == first.mtime_ms == second.ctime_ms
    passed_ms = second.mtime_ms - first.mtime_ms
    assert PASSING_SECONDS * 900 <= passed_ms <= PATIENCE_SECONDS * 1000, "by one clock"
    assert (first.mzxid, second.czxid) == (made.zxid, made.zxid)
    assert (second.mzxid, second.version) == (renewed.zxid, 1)
    await stage.wait(PASSING_SECONDS)
    await written(core, Delete(f"{path}/a", 0), Create(f"{path}/c"), Delete(f"{path}/b", 0))
    third = await stat_of(other, path)
    assert (second.children, second.cversion) == (2, 2)
    assert (third.children, third.cversion) == (1, 5), "each child that came or went counts"
    assert (third.mtime_ms, third.mzxid) == (second.mtime_ms, second.mzxid), "they are no data"
    child = await stat_of(core, f"{path}/c")
    assert child.ctime_ms - second.mtime_ms >= PASSING_SECONDS * 900
    assert await stat_of(core, path) == await stat_of(other, path)


@in_loop
async def test_an_ephemeral_node_goes_with_its_session_and_nothing_is_sent_under_another(
    stage: Stage,
) -> None:
    watcher, core = await stage.core(), await stage.core()
    path = stage.path("mine")
    await written(core, Create(path, ephemeral=True))
    assert conflict(await write(core, Create(f"{path}/a"))) == (0, Refusal.EPHEMERAL_PARENT)
    found = (await read(watcher, Get(path))).results[0]
    assert isinstance(found, Found)
    assert found.stat.owner == core.session
    await watch(watcher, path, WatchOf.NODE)
    former = core.session
    await stage.end(core)
    assert told_of(await watcher.hear(Changed)) == (watcher.session, path)
    assert (await read(watcher, Get(path))).results == (Absent(path),)
    late = await watcher.ask(lambda number, _: Write(number, former, (Create(path),)))
    assert isinstance(late, SessionOver)
    assert (await read(watcher, Get(path))).results == (Absent(path),)


@in_loop
async def test_every_change_after_a_watch_is_told(stage: Stage) -> None:
    watcher, core = await stage.core(), await stage.core()
    for of in WatchOf:
        path = stage.path(f"of-{of.value}")
        await watch(watcher, path, of)  # of a node that is still to come
        await written(core, Create(path))
        assert told_of(await watcher.hear(Changed)) == (watcher.session, path)
        for number in range(3):
            if of is WatchOf.NODE:
                await written(core, Set(path, b"x", number))
            else:
                await written(core, Create(f"{path}/{number}"))
            assert told_of(await watcher.hear(Changed)) == (watcher.session, path)
        if of is WatchOf.BELOW:
            await written(core, Set(f"{path}/1", b"x", 0))
            assert told_of(await watcher.hear(Changed)) == (watcher.session, path)


@in_loop
async def test_the_oldest_candidate_is_elected_and_the_next_when_it_is_gone(stage: Stage) -> None:
    path = stage.path("operators")
    one, other, third = await stage.core(), await stage.core(), await stage.core()
    await written(one, Create(path))
    first = await stand(one, path, "n1")
    assert await one.hear(Elected) == Elected(one.session, path, first)
    second = await stand(other, path, "n0")
    await stand(third, path, "n2")
    await written(one, Check(first, 0))
    assert not any(isinstance(each, Elected) for each in (*other.told, *third.told))
    await stage.end(one)
    assert await other.hear(Elected) == Elected(other.session, path, second)
    assert conflict(await write(other, Check(first, 0))) == (0, Refusal.NO_NODE)
    await written(third, Delete(second, 0))  # whoever is silent is removed
    assert await other.hear(Deposed) == Deposed(other.session, path)
    assert (await third.hear(Elected)).session == third.session
