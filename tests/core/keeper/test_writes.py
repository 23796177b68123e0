"""ZooKeeper's rules for single writes, one by one: errors and their order, stats, numbers, events."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.keeper.keepers import GENERATION, OPEN, SMALL, Harness

from motet.core.keeper.node import new_node, next_version, stat_of
from motet.core.keeper.operations import Write
from motet.format.zookeeper.messages import (
    Acl,
    Check,
    Children,
    Children2,
    Create,
    Create2,
    Created,
    Created2,
    Data,
    Delete,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    MultiRead,
    MultiResult,
    Nothing,
    SetAcl,
    SetData,
    StatResult,
    WriteRequest,
)
from motet.ids import SessionId

CLOSED = (Acl(1, "world", "anyone"),)
NO_ACL: tuple[Acl, ...] = ()
TOO_LARGE = bytes(SMALL.node_bytes_max + 1)

REFUSALS: list[tuple[WriteRequest, ErrorCode]] = [
    # the tree is /full/child, /ephemeral, /closed
    (Create("", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("relative", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("/nul\0", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("/a/", b"", OPEN, 0), ErrorCode.NO_NODE),
    (Create("/full/", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("/full/.", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("/full/\x01", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("//full", b"", OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create("/full//x", b"", OPEN, 0), ErrorCode.NO_NODE),
    (Create("/a", b"", OPEN, -1), ErrorCode.BAD_ARGUMENTS),
    (Create("/a", b"", OPEN, 4), ErrorCode.UNIMPLEMENTED),
    (Create("/a", b"", OPEN, 7), ErrorCode.BAD_ARGUMENTS),
    (Create("/a", b"", NO_ACL, 0), ErrorCode.INVALID_ACL),
    (Create("/absent/a", b"", NO_ACL, 0), ErrorCode.INVALID_ACL),
    (Create("/absent/a", b"", OPEN, 0), ErrorCode.NO_NODE),
    (Create("/closed/.", b"", OPEN, 0), ErrorCode.NO_AUTH),
    (Create("/", b"", OPEN, 0), ErrorCode.NODE_EXISTS),
    (Create("/full", b"", OPEN, 0), ErrorCode.NODE_EXISTS),
    (Create("/full", b"", OPEN, 1), ErrorCode.NODE_EXISTS),
    (Create("/ephemeral/a", b"", OPEN, 0), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
    (Create("/ephemeral/a", b"", OPEN, 3), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
    (Create("/a", TOO_LARGE, OPEN, 0), ErrorCode.BAD_ARGUMENTS),
    (Create2("/full", b"", OPEN, 0), ErrorCode.NODE_EXISTS),
    (Delete("/", -1), ErrorCode.BAD_ARGUMENTS),
    (Delete("relative", -1), ErrorCode.BAD_ARGUMENTS),
    (Delete("/absent", -1), ErrorCode.NO_NODE),
    (Delete("/absent/a", -1), ErrorCode.NO_NODE),
    (Delete("/full/", -1), ErrorCode.NO_NODE),
    (Delete("/closed/absent", -1), ErrorCode.NO_AUTH),
    (Delete("/full", 3), ErrorCode.BAD_VERSION),
    (Delete("/full", 0), ErrorCode.NOT_EMPTY),
    (Delete("/full", -1), ErrorCode.NOT_EMPTY),
    (SetData("/absent", b"", -1), ErrorCode.NO_NODE),
    (SetData("/full/", b"", -1), ErrorCode.BAD_ARGUMENTS),
    (SetData("", b"", -1), ErrorCode.BAD_ARGUMENTS),
    (SetData("/closed", b"", 7), ErrorCode.NO_AUTH),
    (SetData("/full", b"", 1), ErrorCode.BAD_VERSION),
    (SetData("/full", b"", -2), ErrorCode.BAD_VERSION),
    (SetData("/full", TOO_LARGE, -1), ErrorCode.BAD_ARGUMENTS),
    (SetAcl("/full/", OPEN, -1), ErrorCode.BAD_ARGUMENTS),
    (SetAcl("/absent", NO_ACL, -1), ErrorCode.INVALID_ACL),
    (SetAcl("/absent", OPEN, -1), ErrorCode.NO_NODE),
    (SetAcl("/closed", OPEN, 7), ErrorCode.NO_AUTH),
    (SetAcl("/full", OPEN, 7), ErrorCode.BAD_VERSION),
    (Check("/absent", -1), ErrorCode.NO_NODE),
    (Check("/full/", -1), ErrorCode.BAD_ARGUMENTS),
    (Check("/full", 1), ErrorCode.BAD_VERSION),
]


def furnished() -> Harness:
    harness = Harness()
    harness.create("/full")
    harness.create("/full/child")
    harness.create("/ephemeral", 1)
    assert harness.error(Create("/closed", b"", CLOSED, 0)) == 0
    harness.events()
    return harness


@pytest.mark.parametrize(("request_", "error"), REFUSALS)
def test_a_refused_write_changes_nothing_but_the_zxid(
    request_: WriteRequest, error: ErrorCode
) -> None:
    harness = furnished()
    nodes, zxid = dict(harness.keeper._tree.nodes), harness.keeper.zxid
    outcome = harness.one(Write(SessionId(1), GENERATION, request_))
    assert (outcome.error, outcome.result) == (error, Failed(error))
    assert harness.keeper._tree.nodes == nodes
    assert harness.keeper.zxid == outcome.zxid == zxid + 1
    assert harness.events() == []


def test_a_node_from_its_creation_to_its_end() -> None:
    harness = Harness()
    created = harness.one(Write(SessionId(1), GENERATION, Create("/a", b"one", OPEN, 0)))
    assert created.result == Created("/a")
    stat = harness.stat("/a")
    assert stat.czxid == stat.mzxid == stat.pzxid == created.zxid
    assert stat.ctime_ms == stat.mtime_ms == harness.op * 1000
    assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
    assert (stat.ephemeral_owner, stat.data_length, stat.num_children) == (0, 3, 0)

    result = harness.write(SetData("/a", b"two!", 0))
    assert result == StatResult(harness.stat("/a"))
    changed = harness.stat("/a")
    assert (changed.version, changed.data_length) == (1, 4)
    assert changed.mzxid == harness.keeper.zxid
    assert (changed.ctime_ms, changed.mtime_ms) == (stat.ctime_ms, harness.op * 1000)
    assert (changed.czxid, changed.pzxid) == (created.zxid, created.zxid)
    assert harness.data("/a") == b"two!"

    assert isinstance(harness.write(SetAcl("/a", CLOSED, 0)), StatResult)
    listed = harness.stat("/a")
    assert (listed.aversion, listed.mzxid, listed.version) == (1, changed.mzxid, 1)

    assert harness.write(Delete("/a", 1)) == Nothing()
    assert harness.read_error(Exists("/a", False)) == ErrorCode.NO_NODE
    root = harness.stat("/")
    assert (root.cversion, root.num_children, root.pzxid) == (2, 0, harness.keeper.zxid)


def test_create2_answers_the_stat() -> None:
    harness = Harness()
    result = harness.write(Create2("/a-", b"abc", OPEN, 3))
    assert result == Created2("/a-0000000000", harness.stat("/a-0000000000"))
    assert harness.stat("/a-0000000000").ephemeral_owner == 1


def test_sequence_numbers_count_all_children_that_ever_were() -> None:
    harness = Harness()
    harness.create("/p")
    assert harness.create("/p/s-", 2) == "/p/s-0000000000"
    harness.create("/p/plain")
    assert harness.create("/p/s-", 2) == "/p/s-0000000002"
    harness.write(Delete("/p/s-0000000002", -1))
    harness.write(Delete("/p/plain", -1))
    assert harness.create("/p/t-", 2) == "/p/t-0000000003"
    assert harness.create("/p/", 2) == "/p/0000000004"
    stat = harness.stat("/p")
    assert (stat.cversion, stat.num_children) == (5 + 2, 3)


def test_a_failed_create_uses_no_sequence_number() -> None:
    harness = Harness()
    harness.create("/p")
    harness.create("/p/s-0000000001")
    assert harness.error(Create("/p/s-", b"", OPEN, 2)) == ErrorCode.NODE_EXISTS
    assert harness.create("/p/t-", 2) == "/p/t-0000000001"


def test_under_the_root_too() -> None:
    harness = Harness()
    assert harness.create("/", 2) == "/0000000000"
    assert harness.read(GetChildren("/", False)) == Children(("0000000000",))


def test_events_are_the_node_first_and_then_the_parent() -> None:
    harness = Harness()
    harness.create("/p")
    assert harness.events() == [(EventType.CREATED, "/p"), (EventType.CHILD, "/")]
    harness.create("/p/c")
    harness.write(SetData("/p", b"x", -1))
    harness.write(SetAcl("/p", OPEN, -1))
    harness.write(Check("/p", -1))
    assert harness.events() == [
        (EventType.CREATED, "/p/c"),
        (EventType.CHILD, "/p"),
        (EventType.CHANGED, "/p"),
    ]
    harness.write(Delete("/p/c", -1))
    assert harness.events() == [(EventType.DELETED, "/p/c"), (EventType.CHILD, "/p")]


def test_reads() -> None:
    harness = furnished()
    stat = harness.stat("/full")
    assert harness.read(GetData("/full", True)) == Data(b"", stat)
    assert harness.read(GetChildren("/full", False)) == Children(("child",))
    assert harness.read(GetChildren2("/full", False)) == Children2(("child",), stat)
    assert harness.read(GetChildren("/", False)) == Children(("closed", "ephemeral", "full"))
    for path in ("/absent", "", "full", "/full/", "/\ud800"):
        assert harness.read_error(Exists(path, False)) == ErrorCode.NO_NODE
        assert harness.read_error(GetData(path, False)) == ErrorCode.NO_NODE
        assert harness.read_error(GetChildren(path, False)) == ErrorCode.NO_NODE
        assert harness.read_error(GetAcl(path)) == ErrorCode.NO_NODE
    assert harness.read_error(Exists("/nul\0", False)) == ErrorCode.BAD_ARGUMENTS


def test_one_of_many_reads_fails_alone() -> None:
    harness = furnished()
    reads = (GetData("/full", False), GetData("/absent", False), GetChildren("/full", False))
    assert harness.read(MultiRead(reads)) == MultiResult(
        (Data(b"", harness.stat("/full")), Failed(ErrorCode.NO_NODE), Children(("child",)))
    )


def test_versions_begin_again_and_leave_out_the_one_that_means_any() -> None:
    assert next_version(0) == 1
    assert next_version(2**31 - 1) == -(2**31)
    assert next_version(-2) == 0
    many = msgspec.structs.replace(new_node(b"", (), *(0, 0)), children_created=2**31)  # type: ignore[arg-type]
    assert -(2**31) <= stat_of(many, 5).cversion < 2**31


def test_a_tree_that_is_full_takes_no_more() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, nodes_max=3))
    harness.create("/a")
    harness.create("/b")
    assert harness.error(Create("/c", b"", OPEN, 0)) == ErrorCode.QUOTA_EXCEEDED
    assert harness.error(SetData("/a", bytes(1000), -1)) == 0
    harness.write(Delete("/a", -1))
    harness.create("/c")


def test_a_tree_that_is_heavy_becomes_no_heavier() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, tree_bytes_max=100))
    assert harness.error(Create("/a", bytes(90), OPEN, 0)) == 0
    assert harness.error(Create("/b", bytes(6), OPEN, 0)) == ErrorCode.QUOTA_EXCEEDED
    assert harness.error(SetData("/a", bytes(98), -1)) == ErrorCode.QUOTA_EXCEEDED
    many = tuple(Acl(bit, "digest", "some:body") for bit in range(8))
    assert harness.error(SetAcl("/a", many, -1)) == ErrorCode.QUOTA_EXCEEDED
    assert harness.error(SetData("/a", bytes(97), -1)) == 0
    assert harness.keeper.counts().tree_bytes == 100
    assert harness.error(SetData("/a", bytes(1), -1)) == 0
    assert harness.error(Create("/b", bytes(6), OPEN, 0)) == 0


def test_the_largest_node() -> None:
    harness = Harness()
    assert harness.error(Create("/a", TOO_LARGE[1:], OPEN, 0)) == 0
    assert harness.stat("/a").data_length == SMALL.node_bytes_max
