"""Several writes as one: what is answered, what is undone, and at which zxid."""

from __future__ import annotations

import msgspec
from tests.core.keeper.keepers import FIRST, GENERATION, OPEN, SMALL, Harness, tree_pages

from motet.core.keeper.operations import Write
from motet.format.zookeeper.messages import (
    AnyResult,
    Check,
    Create,
    Create2,
    Created,
    Created2,
    Delete,
    ErrorCode,
    EventType,
    Failed,
    Multi,
    MultiResult,
    Nothing,
    SetData,
    StatResult,
)


def multi(
    harness: Harness, *operations: Create | Create2 | Delete | SetData | Check
) -> tuple[AnyResult, ...]:
    result = harness.write(Multi(operations))
    assert isinstance(result, MultiResult)
    return result.results


def test_each_sees_what_came_before_it() -> None:
    harness = Harness()
    results = multi(
        harness,
        Create("/a", b"", OPEN, 0),
        Create2("/a/b-", b"xy", OPEN, 3),
        SetData("/a", b"z", 0),
        Check("/a", 1),
        Create("/a/c", b"", OPEN, 0),
        Delete("/a/c", 0),
    )
    one, two, three, *rest = results
    assert one == Created("/a")
    assert isinstance(two, Created2)
    assert (two.path, two.stat.ephemeral_owner) == ("/a/b-0000000000", 1)
    assert isinstance(three, StatResult)
    assert (three.stat.version, three.stat.num_children) == (1, 1)
    assert rest == [Nothing(), Created("/a/c"), Nothing()]
    stat = harness.stat("/a")
    assert stat.czxid == stat.mzxid == stat.pzxid == harness.keeper.zxid
    assert stat.cversion == 3
    assert harness.events() == [
        (EventType.CREATED, "/a"),
        (EventType.CHILD, "/"),
        (EventType.CREATED, "/a/b-0000000000"),
        (EventType.CHILD, "/a"),
        (EventType.CHANGED, "/a"),
        (EventType.CREATED, "/a/c"),
        (EventType.CHILD, "/a"),
        (EventType.DELETED, "/a/c"),
        (EventType.CHILD, "/a"),
    ]


def test_one_that_fails_undoes_all() -> None:
    harness = Harness()
    harness.create("/a")
    harness.create("/a/old", 1)
    harness.events()
    before, bytes_before = tree_pages(harness.keeper), harness.keeper.counts()
    zxid = harness.keeper.zxid
    outcome = harness.one(
        Write(
            FIRST,
            GENERATION,
            Multi(
                (
                    SetData("/a", b"larger", -1),
                    Delete("/a/old", -1),
                    Create("/a/old", b"", OPEN, 0),
                    Create("/a/old/new-", b"", OPEN, 2),
                    Delete("/a", -1),
                    Create("/z", b"", OPEN, 0),
                    Delete("/a", -1),
                )
            ),
        )
    )
    ok, late = Failed(0), Failed(ErrorCode.RUNTIME_INCONSISTENCY)
    failed = Failed(ErrorCode.NOT_EMPTY)
    assert outcome.result == MultiResult((ok, ok, ok, ok, failed, late, late))
    assert (outcome.error, outcome.zxid) == (0, zxid + 1)
    assert tree_pages(harness.keeper) == before
    assert harness.keeper.counts() == bytes_before
    assert harness.keeper.ephemerals() == {FIRST: ("/a/old",)}
    assert harness.events() == []


def test_the_first_and_the_only() -> None:
    harness = Harness()
    assert multi(harness, Check("/absent", -1)) == (Failed(ErrorCode.NO_NODE),)
    assert multi(harness, Create("/a", b"", OPEN, 0)) == (Created("/a"),)
    assert multi(harness) == ()


def test_one_that_is_too_long_is_not_tried() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, multi_operations_max=2))
    check = Check("/", -1)
    assert multi(harness, check, check) == (Nothing(), Nothing())
    long = Multi((Create("/a", b"", OPEN, 0), check, check))
    assert harness.write(long) == Failed(ErrorCode.BAD_ARGUMENTS)
    assert not harness.is_there("/a")


def test_a_limit_is_felt_inside_too() -> None:
    harness = Harness(msgspec.structs.replace(SMALL, nodes_max=3))
    creates = [Create(f"/{name}", b"", OPEN, 0) for name in "abc"]
    assert multi(harness, *creates)[:2] == (Failed(0), Failed(0))
    assert harness.keeper.counts().nodes == 1
    assert multi(harness, creates[0], Delete("/a", -1), creates[1], creates[2])[0] == Created("/a")
