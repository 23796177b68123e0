"""Answers are given as fast as they leave (C6): to one connection, and to all of them."""

from __future__ import annotations

import msgspec
from tests.core.keeper.front.clusters import FRONT, Client, Cluster

from motet.core.keeper.messages import AnswersSent, FrontEndConfig, answer_bytes
from motet.format.zookeeper.messages import (
    Data,
    ErrorCode,
    Failed,
    GetChildren,
    GetData,
    MultiRead,
    Ping,
    SetData,
)
from motet.limits import keeper_answer_bytes_max

DATA = b"d" * 1_000
SMALL = msgspec.structs.replace(
    FRONT, unsent_bytes_max=5_000, unsent_bytes_all_max=12_000, unsent_bytes_free=500
)


def cluster(front: FrontEndConfig = SMALL) -> tuple[Cluster, Client]:
    made = Cluster(front)
    writer = made.connected("r0")
    writer.create("/a", DATA)
    return made, writer


def taken_bytes(client: Client) -> int:
    return sum(answer_bytes(answer.result) for answer in client.answers)


def test_a_client_that_takes_nothing_is_given_a_bounded_number_of_bytes() -> None:
    made, writer = cluster()
    hungry = made.connected("r1")
    asked = [hungry.send(GetData("/a", False)) for _ in range(50)]
    made.run(3_000)
    assert SMALL.unsent_bytes_max <= taken_bytes(hungry) < SMALL.unsent_bytes_max + 2_000
    assert writer.get("/a") == DATA, "others are served"
    while not hungry.has_answer(asked[-1]):
        given = taken_bytes(hungry)
        hungry.say(AnswersSent(SMALL.unsent_bytes_max))
        made.until(lambda given=given: taken_bytes(hungry) > given)  # type: ignore[misc]
    assert [answer.xid for answer in hungry.answers] == asked, "each once, in order"
    assert all(answer.result == hungry.answers[0].result for answer in hungry.answers)


def test_a_change_between_held_reads_is_seen_by_those_after_it() -> None:
    made, writer = cluster()
    hungry = made.connected("r1")
    for _ in range(10):
        hungry.send(GetData("/a", False))
    made.run(2_000)
    before = len(hungry.answers)
    hungry.send(SetData("/a", b"own", -1))
    assert isinstance(writer.result(GetData("/a", False)), Data)
    assert writer.get("/a") == DATA, "a write behind a read that is held is not handed on (C2)"
    hungry.say(AnswersSent(100_000))
    made.until(lambda: writer.get("/a") == b"own")
    values = [a.result.data for a in hungry.answers if isinstance(a.result, Data)]
    assert values == [DATA] * 10
    assert before < 10


def test_while_all_have_too_much_only_reads_wait() -> None:
    made, writer = cluster()
    hungry = [made.connected("r0") for _ in range(8)]
    for client in hungry:
        for _ in range(20):
            client.send(GetData("/a", False))
    made.run(3_000)
    assert sum(map(taken_bytes, hungry)) < SMALL.unsent_bytes_all_max + 8 * (500 + 2_000)
    late = made.connected("r0")
    xid = late.send(GetData("/a", False))
    assert writer.error(SetData("/a", b"new", -1)) == 0, "a write is answered"
    made.run(2_000)
    assert not late.has_answer(xid)
    for client in hungry[:-1]:
        client.gone()
    made.until(lambda: late.has_answer(xid))
    assert made.node("r0").invariants() == []
    hungry[-1].gone()
    late.gone()
    writer.gone()
    made.run(1_000)
    assert made.node("r0").front.context.state.connections.unsent_bytes == 0


def test_a_client_that_takes_its_answers_never_waits() -> None:
    made, writer = cluster()
    for _ in range(30):
        assert writer.get("/a") == DATA
        writer.say(AnswersSent(answer_bytes(writer.answers[-1].result)))
        writer.clear()
    assert writer.ask(Ping()).error == 0
    made.run(100)


def test_a_multi_read_that_would_be_too_large_is_refused() -> None:
    made, writer = cluster(FRONT)
    count = keeper_answer_bytes_max // len(DATA) + 1
    request = MultiRead((GetData("/a", False),) * count)
    assert writer.result(request) == Failed(ErrorCode.MARSHALLING_ERROR)
    few = MultiRead((GetData("/a", False), GetChildren("/", False)))
    assert writer.error(few) == 0
    made.run(100)
