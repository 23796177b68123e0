"""What clients ask is done once, answered in order, and seen by all."""

from __future__ import annotations

import pytest
from tests.core.keeper.front.clusters import OPEN, Cluster

from motet.format.zookeeper.messages import (
    Acl,
    Auth,
    Check,
    Children,
    Children2,
    CloseSession,
    Create,
    Create2,
    Created,
    Data,
    Delete,
    ErrorCode,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    MultiResult,
    Nothing,
    Ping,
    SetAcl,
    SetData,
    StatResult,
    Sync,
    Synced,
    Unknown,
)


def test_what_is_written_on_one_node_is_read_on_another() -> None:
    cluster = Cluster()
    writer, reader = cluster.connected("r0"), cluster.connected("r2")
    assert writer.create("/a", b"1") == "/a"
    assert reader.get("/a") == b"1"
    assert isinstance(writer.result(SetData("/a", b"2", 0)), StatResult)
    assert reader.get("/a") == b"2"
    assert reader.error(SetData("/a", b"3", 0)) == ErrorCode.BAD_VERSION
    assert writer.result(GetChildren("/", False)) == Children(("a",))
    children = reader.result(GetChildren2("/", False))
    assert isinstance(children, Children2)
    assert children.stat.num_children == 1
    assert writer.result(Delete("/a", -1)) == Nothing()
    assert reader.error(Exists("/a", False)) == ErrorCode.NO_NODE


def test_a_multi_is_done_as_one_and_its_answer_says_what_was_asked() -> None:
    client = Cluster().connected("r1")
    good = Multi((Create("/a", b"1", OPEN, 0), Check("/a", 0), SetData("/a", b"2", 0)))
    answer = client.ask(good)
    assert isinstance(answer.result, MultiResult)
    assert answer.request == good
    assert client.get("/a") == b"2"
    bad = client.result(Multi((SetData("/a", b"3", -1), Check("/a", 7))))
    assert bad == MultiResult((Failed(0), Failed(ErrorCode.BAD_VERSION)))
    assert client.get("/a") == b"2"


def test_a_multi_read_is_answered_as_one() -> None:
    client = Cluster().connected("r0")
    client.create("/a", b"1")
    request = MultiRead((GetData("/a", False), GetData("/b", False), GetChildren("/", False)))
    answer = client.ask(request)
    assert answer.request == request
    assert isinstance(answer.result, MultiResult)
    data, missing, children = answer.result.results
    assert isinstance(data, Data)
    assert missing == Failed(ErrorCode.NO_NODE)
    assert children == Children(("a",))


def test_answers_leave_in_the_order_of_requests() -> None:
    client = Cluster().connected("r2")
    xids = [
        client.send(request)
        for request in (
            Ping(),
            Create("/a", b"", OPEN, 0),
            Ping(),
            GetData("/a", False),
            SetData("/a", b"1", 0),
            Sync("/"),
            GetData("/a", False),
            Unknown(16),
            SetData("/a", b"2", 1),
            SetData("/a", b"3", 2),
            Ping(),
            GetData("/a", False),
        )
    ]
    client.cluster.until(lambda: len(client.answers) == len(xids))
    assert [answer.xid for answer in client.answers] == xids
    read = [answer.result.data for answer in client.answers if isinstance(answer.result, Data)]
    assert read == [b"", b"1", b"3"], "a read sees all writes before it, and none behind it"
    assert [answer.error for answer in client.answers if answer.error] == [ErrorCode.UNIMPLEMENTED]
    assert client.answers[5].result == Synced("/")
    logged = [answer.zxid for answer in client.answers if not isinstance(answer.result, Nothing)]
    assert logged == sorted(logged)


def test_a_run_of_writes_is_under_way_together() -> None:
    cluster = Cluster()
    node = cluster.backups[0]
    client = cluster.connected(node)
    before = cluster.node(node).replica.core.state.op
    cluster.bench.held = ("reply",)
    xids = [client.send(Create(f"/{name}", b"", OPEN, 0)) for name in "abcdefgh"]
    cluster.bench.release()
    assert cluster.node(node).replica.core.state.op - before == 2, "the first, then all others"
    cluster.until(lambda: client.has_answer(xids[-1]))
    assert [answer.xid for answer in client.answers] == xids


def test_reads_that_come_while_one_is_asked_for_share_the_next_question() -> None:
    cluster = Cluster()
    node = cluster.backups[0]
    early, late = cluster.connected(node), cluster.connected(node)
    writer = cluster.connected(cluster.primary)
    cluster.run(200)
    cluster.let_hear_late(node)
    cluster.bench.held = ("read_point",)
    first = early.send(Exists("/a", False))
    writer.create("/a")
    second = late.send(Exists("/a", False))
    cluster.bench.release()
    assert early.answer(first).error == ErrorCode.NO_NODE
    assert not late.has_answer(second), "what was asked before it came says nothing about it"
    cluster.bench.heal()
    cluster.until(lambda: late.has_answer(second))
    assert late.answer(second).error == 0


def test_a_client_sees_its_own_writes_on_a_node_that_lags() -> None:
    cluster = Cluster()
    node = cluster.backups[0]
    client = cluster.connected(node)
    cluster.let_lag(node)
    xid = client.send(Create("/a", b"1", OPEN, 0))
    read = client.send(GetData("/a", False))
    cluster.run(300)
    assert not client.has_answer(xid), "this replica has not applied it"
    cluster.bench.heal()
    cluster.until(lambda: client.has_answer(read))
    assert isinstance(client.answer(xid).result, Created)
    assert isinstance(client.answer(read).result, Data)


def test_a_read_sees_what_was_answered_elsewhere_before() -> None:
    cluster = Cluster()
    node = cluster.backups[0]
    reader, writer = cluster.connected(node), cluster.connected(cluster.primary)
    cluster.let_lag(node)
    writer.create("/a", b"1")
    read = reader.send(GetData("/a", False))
    cluster.run(300)
    assert not reader.has_answer(read)
    cluster.bench.heal()
    cluster.until(lambda: reader.has_answer(read))
    assert isinstance(reader.answer(read).result, Data)


def test_a_read_waits_for_its_own_point_and_no_later_one() -> None:
    cluster = Cluster()
    node = cluster.backups[0]
    reader, writer = cluster.connected(node), cluster.connected(cluster.primary)
    cluster.run(200)
    cluster.let_hear_late(node)
    writer.create("/a")
    early = reader.send(GetData("/a", False))
    assert not reader.has_answer(early)
    writer.create("/b")
    late = reader.send(GetData("/b", False))
    assert reader.has_answer(early)
    assert not reader.has_answer(late)


def test_identities_are_proved_and_count_from_then_on() -> None:
    cluster = Cluster()
    client, other = cluster.connected("r1"), cluster.connected("r0")
    assert client.result(Auth("digest", b"me:secret")) == Nothing()
    client.create("/a")
    assert client.error(SetAcl("/a", (Acl(31, "auth", ""),), -1)) == 0
    assert client.get("/a") == b""
    assert other.error(GetData("/a", False)) == ErrorCode.NO_AUTH
    assert other.result(Auth("digest", b"me:secret")) == Nothing()
    assert other.error(GetAcl("/a")) == 0


def test_who_proves_nothing_is_told_and_hung_up() -> None:
    client = Cluster().connected("r1")
    before, auth = client.send(Create("/a", b"", OPEN, 0)), client.send(Auth("kerberos", b"x"))
    client.cluster.until(lambda: client.is_hung_up)
    assert client.answer(before).error == 0
    assert client.answer(auth).error == ErrorCode.AUTH_FAILED
    assert client.kinds[-1] == "Hangup"


def test_what_is_too_large_for_a_node_is_refused_in_its_turn() -> None:
    client = Cluster().connected("r1")
    large, small = (client.send(Create(f"/{n}", bytes(n), OPEN, 0)) for n in (9_000, 2_000))
    client.cluster.until(lambda: client.has_answer(small))
    assert client.answer(large).error == ErrorCode.BAD_ARGUMENTS
    assert client.answer(small).error == 0
    assert [answer.xid for answer in client.answers] == [large, small]


def test_what_is_too_large_for_one_request_is_done_as_one_all_the_same() -> None:
    cluster = Cluster()
    client = cluster.connected(cluster.backups[0])
    large = Multi(tuple(Create(f"/{n}", bytes([n]) * 2_000, OPEN, 0) for n in range(5)))
    cluster.bench.held = ("reply",)
    xids = [client.send(request) for request in (large, SetData("/3", b"later", 0))]
    cluster.bench.release()
    cluster.until(lambda: client.has_answer(xids[-1]))
    assert [(answer.xid, answer.error) for answer in client.answers] == [(x, 0) for x in xids]
    assert client.get("/4") == bytes([4]) * 2_000
    assert client.get("/3") == b"later"


def test_a_multi_whose_answer_is_too_large_for_any_reply_is_refused() -> None:
    client = Cluster().connected("r1")
    many = Multi(tuple(Create2(f"/{n}", b"", OPEN, 0) for n in range(60)))
    assert client.error(many) == ErrorCode.MARSHALLING_ERROR
    assert client.result(GetChildren("/", False)) == Children(())


@pytest.mark.parametrize(("count", "size_bytes"), [(9, 1_500), (70, 0)])
def test_what_does_not_fit_into_one_request_or_reply_goes_in_several(
    count: int, size_bytes: int
) -> None:
    cluster = Cluster()
    client = cluster.connected(cluster.backups[0])
    cluster.bench.held = ("reply",)
    xids = [client.send(Create(f"/{n}", bytes(size_bytes), OPEN, 0)) for n in range(count)]
    cluster.bench.release()
    cluster.until(lambda: client.has_answer(xids[-1]))
    assert [answer.error for answer in client.answers] == [0] * count


def test_nothing_is_taken_after_a_goodbye() -> None:
    client = Cluster().connected("r0")
    client.send(CloseSession())
    client.send(Create("/a", b"", OPEN, 0))
    client.cluster.until(lambda: client.is_hung_up)
    assert client.kinds == ["Connected", "Answer", "Hangup"]
    assert client.cluster.connected("r1").get("/a") is None


def test_what_was_under_way_when_a_connection_went_is_done() -> None:
    cluster = Cluster()
    client = cluster.connected("r1")
    client.send(Create("/a", b"", OPEN, 0))
    client.send(CloseSession())
    client.gone()
    cluster.run(1_000)
    assert cluster.connected("r0").get("/a") == b""
    assert all(cluster.node(name).keeper.counts().sessions == 1 for name in ("r0", "r1", "r2"))
    assert client.address not in cluster.node("r1").front.context.state.connections.by_address
