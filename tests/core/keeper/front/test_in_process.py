"""A keeper of one replica whose clients live in its own process: sessions without time."""

from __future__ import annotations

import msgspec
from tests.core.keeper.front.clusters import KEEPER, OPEN, VSR, Cluster

from motet.core.keeper.messages import Connected, FrontEndConfig
from motet.format.zookeeper.messages import (
    Create,
    CreateFlags,
    ErrorCode,
    Failed,
    GetChildren,
    GetData,
)
from motet.ids import Address

NEVER_MS = (1 << 31) - 1
ALONE = msgspec.structs.replace(VSR, replicas=(Address("r0"),))
FOREVER = msgspec.structs.replace(KEEPER, timeout_ms_max=NEVER_MS)
FRONT = FrontEndConfig(lanes=1, is_in_process=True, timeout_ms_max=NEVER_MS)
EPHEMERAL = int(CreateFlags.EPHEMERAL)
minute_ms = 60_000


def alone() -> Cluster:
    return Cluster(FRONT, vsr=ALONE, keeper=FOREVER)


def test_a_session_outlives_any_silence_and_nothing_is_logged_meanwhile() -> None:
    cluster = alone()
    client = cluster.connected("r0", NEVER_MS)
    client.result(Create("/mine", b"", OPEN, EPHEMERAL))
    cluster.run(minute_ms)  # what follows a write is written, too
    core = cluster.node("r0").replica.core
    logged, files = core.state.op, dict(cluster.bench.node("r0").disk.durable)
    cluster.run(minute_ms)
    assert core.state.op == logged
    assert cluster.bench.node("r0").disk.durable == files
    assert not isinstance(client.result(GetData("/mine", False)), Failed)


def test_what_a_former_process_left_is_ended_before_anything_else() -> None:
    cluster = alone()
    before = cluster.connected("r0", NEVER_MS)
    before.result(Create("/candidates", b"", OPEN, 0))
    before.result(Create("/candidates/old", b"", OPEN, EPHEMERAL))
    cluster.connected("r0", NEVER_MS).result(Create("/other", b"", OPEN, EPHEMERAL))
    for _ in range(2):  # with its last words in the log alone, then in a checkpoint
        cluster.bench.crash("r0")
        cluster.bench.start("r0")
        after = cluster.client("r0")
        after.say_connect(NEVER_MS)
        asked = [
            after.send(GetChildren("/candidates", False)),
            after.send(GetData("/other", False)),
        ]
        cluster.until(lambda: after.has_answer(asked[1]))  # noqa: B023 - it is called at once
        children, other = (after.answer(each).result for each in asked)
        assert children.children == ()  # type: ignore[union-attr]
        assert other == Failed(ErrorCode.NO_NODE)
        assert len(cluster.node("r0").keeper.sessions()) == 1
        for number in range(60):
            after.result(Create(f"/more-{number}", b"", OPEN, EPHEMERAL))
        after.result(Create("/candidates/new", b"", OPEN, EPHEMERAL))


def test_a_session_of_a_former_process_cannot_be_had_again() -> None:
    cluster = alone()
    before = cluster.connected("r0", NEVER_MS)
    cluster.bench.crash("r0")
    cluster.bench.start("r0")
    again = cluster.client("r0")
    again.say_connect(NEVER_MS, before.connected.session, before.connected.password)
    cluster.until(lambda: again.is_hung_up)
    assert again.inbox[0] == Connected(0, 0, bytes(16))
