"""What an operator does with requests, and with everything else that somebody may send it."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.operator.clusters import SHARD, WatchedPart, after

from motet.core.clock.hlc import ZERO
from motet.core.machine import Now, Received, Send, Started
from motet.core.metadata.definitions import StreamDefinition
from motet.core.metadata.messages import METADATA, Changed, Elected, Failed, ReadDone, Written
from motet.core.metadata.paths import NODES, OPERATORS
from motet.core.operator import elections
from motet.core.operator.context import Core, OperatorConfig
from motet.core.operator.operator import Operator
from motet.core.operator.state import ShardControl
from motet.core.shardlog.entry import NO_ENTRY
from motet.core.shardlog.messages import (
    BecomeLeaderResponse,
    FenceResponse,
    Refusal,
    Refused,
    SnapshotResponse,
)
from motet.core.streams.cluster_messages import (
    CreateStream,
    DescribeShards,
    DrainNode,
    ElectLeader,
    HeartbeatAnswer,
    OperatorRefused,
    ShardsDescribed,
)
from motet.ids import (
    Address,
    Epoch,
    LogName,
    NodeId,
    RequestId,
    SessionId,
    ShardId,
    ShardName,
    StreamId,
    StreamName,
    Zxid,
)
from motet.testing.scripts.operator_puppets import PuppetNode

NOW = Now(0, 1_700_000_000_000 * 1_000_000)
ELECTED = Elected(SessionId(0), OPERATORS, f"{OPERATORS}/o1-0")
GOOD = StreamDefinition(StreamId("0123456789abcdef"), StreamName("orders"), 1, None)


def put_all(part: WatchedPart, nodes: dict[str, bytes]) -> None:
    """Somebody else writes these into the keeper."""
    for path, data in nodes.items():
        part._keeper().put(path, data)


def answers(part: WatchedPart) -> list[object]:
    return list(part.bench.received.get(Address("client"), []))


def test_who_is_not_active_sends_nothing_but_refusals() -> None:
    operator = Operator(OperatorConfig(), NodeId("o1"))
    assert operator.step(Started(NOW, nonce=1)) == []
    strangers = [
        HeartbeatAnswer(1, ZERO, 1, ()),
        FenceResponse(SHARD, Epoch(1), NO_ENTRY, NO_ENTRY, True),
        Written(RequestId(1), Zxid(1), (0,)),
    ]
    for message in strangers:
        assert operator.step(Received(NOW, Address("n1"), message)) == []
    (effect,) = operator.step(Received(NOW, Address("c"), DescribeShards(RequestId(1), None)))
    assert isinstance(effect, Send)
    assert isinstance(effect.message, OperatorRefused)
    assert effect.message.code == "NOT_ACTIVE"


def test_only_the_keeper_makes_an_operator_active() -> None:
    operator = Operator(OperatorConfig(), NodeId("o1"))
    operator.step(Started(NOW, nonce=1))
    assert operator.step(Received(NOW, Address("n1"), ELECTED)) == []
    assert not operator.core.state.is_active


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "no good"}, "BAD_INPUT"),
        ({"name": "a/b"}, "BAD_INPUT"),
        ({"id": "../../x"}, "BAD_INPUT"),
        ({"id": "0123456789ABCDEF"}, "BAD_INPUT"),
        ({"shards": 0}, "BAD_INPUT"),
        ({"shards": 257}, "BAD_INPUT"),
        ({"replicas": 0}, "BAD_INPUT"),
        ({"replicas": 16}, "BAD_INPUT"),
        ({"replicas": 4}, "NO_NODE_TO_PLACE_ON"),
        ({"schema": bytes(1 << 20)}, "TOO_LARGE"),
        ({"is_deleted": True}, "BAD_INPUT"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_and_leaves_no_trace(
    changes: dict[str, object], code: str
) -> None:
    part = after("cluster", "run 300")
    before = part._keeper().fingerprint()
    wanted = msgspec.structs.replace(GOOD, **changes)
    part.bench.receive("o1", "client", CreateStream(RequestId(7), wanted, 0))
    part.bench.run_ms(500)
    (refused,) = answers(part)
    assert isinstance(refused, OperatorRefused)
    assert (refused.request, refused.code) == (7, code)
    assert part._keeper().fingerprint() == before
    assert part.operator().core.state.waiting == []


def test_requests_that_wait_are_bounded() -> None:
    part = WatchedPart()
    part.config = OperatorConfig(requests_max=3)
    part.do("cluster", "run 300", "lose FenceResponse")
    for number in range(4):
        wanted = msgspec.structs.replace(
            GOOD, id=StreamId(f"{number:016x}"), name=StreamName(f"s{number}")
        )
        part.bench.receive("o1", "client", CreateStream(RequestId(number), wanted, 0))
    part.bench.run_ms(100)
    (refused,) = answers(part)
    assert isinstance(refused, OperatorRefused)
    assert (refused.request, refused.code) == (3, "OPERATOR_BUSY")


def test_a_request_that_takes_too_long_has_an_unknown_outcome_and_goes_on() -> None:
    part = after("cluster", "create orders", "lose FenceResponse", "elect wait=off", "run 61000")
    (refused,) = answers(part)
    assert isinstance(refused, OperatorRefused)
    assert refused.code == "OUTCOME_UNKNOWN"
    part.do("heal", "run 10000")
    assert part.stored().leader is not None


def test_shards_are_described_with_the_newest_reports() -> None:
    part = after("cluster", "create orders", "create more", "run 400")
    part.bench.received.clear()
    part.bench.receive("o1", "client", DescribeShards(RequestId(9), StreamName("orders")))
    part.bench.run_ms(1)
    (described,) = answers(part)
    assert isinstance(described, ShardsDescribed)
    assert [each.shard for each in described.shards] == [SHARD]
    assert [node for node, _ in described.reports] == ["n1", "n2", "n3"]
    told = {node: [each.status for each in each_of] for node, each_of in described.reports}
    assert sorted(status for (status,) in told.values()) == ["follower", "follower", "leader"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (ElectLeader(RequestId(1), StreamName("nothing"), ShardId(0)), "NO_SUCH_STREAM"),
        (ElectLeader(RequestId(1), StreamName("orders"), ShardId(-1)), "NO_SUCH_SHARD"),
        (DescribeShards(RequestId(1), StreamName("nothing")), "NO_SUCH_STREAM"),
        (DrainNode(RequestId(1), NodeId("n9")), "NO_SUCH_NODE"),
    ],
)
def test_what_is_not_there_is_named(message: ElectLeader, code: str) -> None:
    part = after("cluster", "create orders")
    part.bench.received.clear()
    part.bench.receive("o1", "client", message)
    part.bench.settle()
    (refused,) = answers(part)
    assert isinstance(refused, OperatorRefused)
    assert refused.code == code


def test_messages_that_nobody_waits_for_change_nothing() -> None:
    part = after("cluster", "create orders", "run 100")
    stored, state = part.stored(), part.operator().core.state
    other = ShardName("ffffffffffffffff.0")
    for message in (
        FenceResponse(SHARD, Epoch(1), NO_ENTRY, NO_ENTRY, True),
        FenceResponse(SHARD, Epoch(9), NO_ENTRY, NO_ENTRY, True),
        FenceResponse(LogName(other), Epoch(1), NO_ENTRY, NO_ENTRY, True),
        BecomeLeaderResponse(SHARD, Epoch(1)),
        SnapshotResponse(SHARD, Epoch(1), NO_ENTRY),
        Refused(SHARD, Epoch(1), Refusal.UNSAFE, "CommitReconfigurationRequest", Epoch(1)),
        HeartbeatAnswer(state.round + 5, ZERO, 1, ()),
        HeartbeatAnswer(3, ZERO, 1, ()),
    ):
        for sender in ("n1", "n2", "stranger"):
            told = part.bench.receive("o1", sender, message)
            assert [line for line in told if "refused" not in line] == []
    late = RequestId(999)
    for answer in (Written(late, Zxid(9), (3,)), ReadDone(late, Zxid(9), ())):
        assert part.bench.receive("o1", METADATA, answer) == []
    assert part.stored() == stored
    assert part.control().phase == "steady"


def test_garbage_in_the_store_is_noted_and_left_alone() -> None:
    part = after("cluster operators=2", "create orders")
    garbage = {
        "/motet/nodes/x": b"{",
        "/motet/streams/x": b"[]",
        "/motet/shards/x": b"\xff",
        "/motet/maps/term": b"many",
    }
    put_all(part, garbage)
    told = part.do("promote o2", "run 1000")
    assert [line for line in told if "bad_" in line] == [
        "o2 bad_entry: /motet/nodes/x",
        "o2 bad_definition: /motet/streams/x: Expected `object`, got `array`",
        "o2 bad_metadata: /motet/shards/x",
    ]
    for path in list(garbage)[:3]:
        assert part._keeper().get(path) == (garbage[path], 0)
    assert part.stored().leader is not None


def test_a_definition_that_is_none_is_named_once_and_its_name_cannot_be_taken() -> None:
    part = after("cluster", "create orders")
    orders = part._stored("/motet/streams/orders")[0]
    copied = orders.replace(b'"orders"', b'"copied"')
    bad = {
        "/motet/streams/copied": copied,  # its id is that of another
        "/motet/streams/empty": orders.replace(b'"shards":1', b'"shards":0'),
        "/motet/streams/junk": b"junk",
        "/motet/streams/renamed": orders,
    }
    put_all(part, bad)
    part.bench.traced = ("Write",)
    told = [*part._changed("/motet/streams"), *part.do("run 1000")]
    assert [line.partition(": ")[2].split(":")[0] for line in told if "bad_definition" in line] == [
        *bad
    ]
    for name in ("copied", "empty", "junk", "renamed"):
        told = [*part.do(f"create {name}"), *part.do("run 1000")]
        assert [line for line in told if "Write" in line or "bad_definition" in line] == []
        (refused,) = [line for line in told if line.startswith("client <- ")]
        assert f"/motet/streams/{name} in the keeper is not the definition" in refused
    for path, data in bad.items():
        assert part._keeper().get(path) == (data, 0)
    assert part.stored().leader is not None


def test_a_create_that_meets_junk_while_it_writes_is_refused() -> None:
    part = after("cluster", "create orders")
    put_all(part, {"/motet/streams/late": b"junk"})  # nobody has read it yet
    part.bench.traced = ("Write",)
    told = [*part.do("create late"), *part.do("run 2000")]
    assert len([line for line in told if "-> metadata Write" in line]) == 1
    assert any("is not the definition of a stream" in line for line in told)


def test_a_node_that_registers_late_gets_replicas() -> None:
    part = after("cluster nodes=2", "create orders replicas=2")
    told = part.do("add-node n3 start=on", "run 1500", "swap n2")
    assert told[-1].startswith("client <- done: n1 n3"), told


def test_what_changed_before_a_watch_could_be_set_is_read_when_it_is() -> None:
    part = WatchedPart()
    part.do("cluster nodes=2 active=off", "lose Watching")
    part.do("promote o1", "run 300")
    entering = dict(part.operator().core.state.entering)
    assert NODES in entering.values(), "the watches are not set yet"
    part.do("add-node n3")  # and nobody tells of it
    part.bench.start("n3")
    part.do("run 1000")
    assert "n3" not in part.operator().core.state.nodes
    for request in entering:
        part.bench.receive("o1", METADATA, Failed(request, "NODE", "not reached", "try again"))
    part.do("heal", "run 6000")
    assert part.operator().core.state.entering == {}
    assert "n3" in part.operator().core.state.nodes


def test_everything_that_changed_is_read_again_also_from_above() -> None:
    part = after("cluster", "create orders", "run 300")
    part.bench.traced = ("Read",)
    session = part.operator().core.state.session
    told = part.bench.receive("o1", METADATA, Changed(session, "/motet"))
    assert told == ["o1 -> metadata Read"]
    assert part.bench.settle() == ["o1 -> metadata Read"]  # the names, then the nodes
    assert part.bench.receive("o1", METADATA, Changed(session, "/elsewhere")) == []
    former = Changed(SessionId(session + 1), "/motet")
    assert part.bench.receive("o1", METADATA, former) == [], "of another session"
    read = ReadDone(RequestId(0), Zxid(1), ())
    assert part.bench.receive("o1", METADATA, read) == []


def test_an_operator_that_outlives_a_later_one_is_listened_to_again() -> None:
    part = after("cluster", "create orders", "run 1000")
    node = part.bench.node("n1").machine
    assert isinstance(node, PuppetNode)
    term, cluster = part._stored("/motet/maps/term")[0].split()
    later = int(term) + 1
    put_all(part, {"/motet/maps/term": b"%d %s" % (later, cluster)})
    node.state.map_version = foreign = (later << 32) + 7
    part.do("run 5000")
    assert node.state.map_version > foreign
    assert part.operator().core.state.term == later + 1


def test_the_shards_of_a_new_stream_are_founded_with_one_look_at_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their first entries are above every clock that was handed out: that is found out once for all."""
    part = after("cluster", *(f"create s{number} shards=4" for number in range(6)))
    looked = 0
    is_known = elections._is_known

    def counted(core: Core, other: ShardControl, since_round: int) -> bool:
        nonlocal looked
        looked += 1
        return is_known(core, other, since_round)

    monkeypatch.setattr(elections, "_is_known", counted)
    part.do("create last shards=4")
    others = len(part.operator().core.state.shards)
    assert others == 28
    assert 0 < looked <= 2 * others
