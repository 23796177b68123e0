"""The tree checker: its tree against that of the keeper, and histories good, bad and malformed."""

from __future__ import annotations

from random import Random

import pytest
from tests.verify.history.histories import mutated
from tests.verify.history.oracle import possible_orders

from motet.core.keeper.acl import OPEN_ACL
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.tree import Tree as KeeperTree
from motet.core.keeper.writes import Writing, write_one
from motet.errors import BadHistory
from motet.format.zookeeper.messages import (
    Check,
    Create,
    Created,
    CreateFlags,
    Delete,
    ErrorCode,
    Failed,
    SetData,
    StatResult,
)
from motet.ids import SessionId, Zxid
from motet.verify.history import History, Recorder, check_tree
from motet.verify.history.operation import Operation, Value
from motet.verify.history.tree_state import Nodes, Refused, Tree

Call = tuple[str, Value, Value]


def drawn(random: Random) -> Call:
    path = random.choice(["/a", "/b", "/a/x", "/a/y", "/b/x"])
    function = random.choice(["create", "create", "set", "delete", "check"])
    version = random.choice([-1, -1, 0, 1])
    if function == "create":
        options = random.choice([(), (), ("sequential",), ("ephemeral", "7")])
        return function, path, (str(random.randrange(9)), *options)
    if function == "set":
        return function, path, (str(random.randrange(9)), version)
    return function, path, (version,)


def by_the_keeper(tree: KeeperTree, call: Call, zxid: int) -> tuple[Value, ...]:
    """What the keeper's own tree answers."""
    function, path, value = call
    assert isinstance(path, str)
    assert isinstance(value, tuple)
    write = Writing(KeeperConfig(), tree, Zxid(zxid), 0, SessionId(7), (), [])
    request: Create | SetData | Delete | Check
    if function == "create":
        flags = CreateFlags.SEQUENTIAL * ("sequential" in value)
        flags |= CreateFlags.EPHEMERAL * ("ephemeral" in value)
        request = Create(path, str(value[0]).encode(), OPEN_ACL, int(flags))
    elif function == "set":
        request = SetData(path, str(value[0]).encode(), int(str(value[1])))
    else:
        request = (Delete if function == "delete" else Check)(path, int(str(value[0])))
    result = write_one(write, request)
    if isinstance(result, Failed):
        return (ErrorCode(result.error).name,)
    if isinstance(result, Created):
        return "OK", result.path
    return ("OK", result.stat.version) if isinstance(result, StatResult) else ("OK",)


def test_the_tree_answers_as_the_keeper_does() -> None:
    codes: dict[Value, int] = {}
    for seed in range(60):
        random, keeper, tree = Random(seed), KeeperTree(64), Tree()
        for number in range(40):
            call = drawn(random)
            expected = by_the_keeper(keeper, call, number + 1)
            try:
                answer: tuple[Value, ...] = ("OK", *tree.do(*call))
            except Refused as refused:
                answer = refused.answer
            assert answer == expected, f"seed {seed}: {call}"
            codes[answer[0]] = codes.get(answer[0], 0) + 1
    assert set(codes) == {
        "OK",
        "NO_NODE",
        "NODE_EXISTS",
        "NOT_EMPTY",
        "BAD_VERSION",
        "NO_CHILDREN_FOR_EPHEMERALS",
    }


def apply(operation: Operation, state: Nodes) -> tuple[Nodes, tuple[Value, ...]]:
    tree = Tree(state)
    try:
        answer = tree.do(operation.function, operation.key, operation.value)
    except Refused as refused:
        return state, refused.answer
    return tree.frozen(), ("OK", *answer)


def recorded(random: Random, operations: int) -> History:
    """A tree that takes each operation at a moment between its begin and its end."""
    recorder, tree = Recorder(), Tree()
    waiting: list[tuple[int, str, Call]] = []
    answers: list[tuple[int, Value]] = []
    begun = 0
    while begun < operations or waiting or answers:
        what = random.random()
        if what < 0.4 and begun < operations and len(waiting) + len(answers) < 4:
            call = drawn(random)
            if call[0] == "check" or random.random() < 0.3:
                call = (random.choice(["get", "exists", "children"]), call[1], None)
            op = recorder.invoke(f"c{begun}", *call, at=begun)
            waiting.append((op, f"c{begun}", call))
            begun += 1
        elif waiting and what < 0.7:
            number, _, call = waiting.pop(random.randrange(len(waiting)))
            try:
                answers.append((number, ("OK", *tree.do(*call))))
            except Refused as refused:
                answers.append((number, refused.answer))
        elif answers:
            number, answer = answers.pop(random.randrange(len(answers)))
            done = recorder.unknown if random.random() < 0.1 else None
            op = type(op)(number)
            recorder.ok(op, answer, at=begun) if done is None else done(op, at=begun)
    return recorder.history()


def test_good_and_mutated_histories_against_every_order() -> None:
    violated = 0
    for seed in range(250):
        random = Random(seed)
        good = recorded(random, random.randrange(3, 7))
        assert check_tree(good), f"seed {seed}"
        bad = mutated(random, mutated(random, good))
        if any(op.outcome == "ok" and not op.result for op in bad.operations):
            continue  # the code of an answer was taken away: that is no history of a tree
        expected = possible_orders(bad.operations, Tree().frozen(), apply)
        assert check_tree(bad).status == ("ok" if expected else "violated"), f"seed {seed}\n{bad}"
        violated += not expected
    assert violated > 20


def test_long_histories_are_decided() -> None:
    for seed in range(3):
        assert check_tree(recorded(Random(seed), 300)), f"seed {seed}"


def told(*calls: tuple[str, Value, Value, Value]) -> History:
    recorder = Recorder()
    for at, (function, key, value, answer) in enumerate(calls):
        recorder.ok(recorder.invoke("c1", function, key, value, at), answer, at)
    return recorder.history()


def test_a_multi_happens_as_a_whole_or_not_at_all() -> None:
    both = (("create", "/a", ("1",)), ("create", "/b", ("2",)))
    assert check_tree(told(("multi", None, both, ("OK", (("OK", "/a"), ("OK", "/b"))))))
    refused = (("create", "/a", ("1",)), ("check", "/b", (0,)))
    history = told(
        ("multi", None, refused, ("NO_NODE", 1)), ("children", "/", None, ("OK", ("a",)))
    )
    witness = check_tree(history).witness
    assert witness is not None
    assert "children" in witness.sentence


def test_what_is_ephemeral_goes_with_its_session() -> None:
    made = ("create", "/a", ("", "ephemeral", "s1"), ("OK", "/a"))
    gone = ("end_session", None, "s1", ("OK",))
    assert check_tree(told(made, gone, ("exists", "/a", None, ("NO_NODE",))))
    assert not check_tree(told(made, gone, ("exists", "/a", None, ("OK", 0))))


def test_a_stale_answer_is_found_however_much_else_is_open() -> None:
    """Sixty operations of unknown outcome on other paths: trying their orders would take for ever."""
    recorder = Recorder()
    for number in range(60):
        made = recorder.invoke(f"u{number}", "create", f"/p{number}", ("",), at=number)
        recorder.unknown(made, at=number)
    steps = (
        ("create", ("old",), ("OK", "/a")),
        ("set", ("new", -1), ("OK", 1)),
        ("get", None, ("OK", "old", 0)),
    )
    for at, (function, value, answer) in enumerate(steps, start=60):
        recorder.ok(recorder.invoke("c1", function, "/a", value, at), answer, at)
    verdict = check_tree(recorder.history(), budget_steps=1_000)
    assert (verdict.status, verdict.operations) == ("violated", 63)
    assert verdict.witness is not None
    assert [op.function for op in verdict.witness.operations] == ["set", "get"]
    assert "it finds 'new' in version 1" in verdict.witness.sentence


def test_a_path_alone_is_judged_with_what_a_multi_or_the_end_of_a_session_does_to_it() -> None:
    sets = (("set", "/a", ("2", 0)), ("check", "/b", (0,)))
    both = ("multi", None, sets, ("OK", (("OK", 1), ("OK",))))
    after = ("get", "/a", None, ("OK", "2", 1))
    assert check_tree(told(both, after), initial=["/a", "/b"])
    before = ("get", "/a", None, ("OK", "", 0))
    assert not check_tree(told(both, before), initial=["/a", "/b"])
    recorder = Recorder()
    recorder.ok(recorder.invoke("c1", "create", "/e", ("", "ephemeral", "s"), 0), ("OK", "/e"), 0)
    recorder.unknown(recorder.invoke("end", "end_session", None, "s", 1), 1)
    recorder.ok(recorder.invoke("c1", "exists", "/e", None, 2), ("NO_NODE",), 2)
    assert check_tree(recorder.history())
    recorder.ok(recorder.invoke("c1", "exists", "/e", None, 3), ("OK", 0), 3)
    assert not check_tree(recorder.history())


def test_a_sequential_node_that_nobody_was_told_of_may_be_any_that_is_seen() -> None:
    recorder = Recorder()
    recorder.unknown(recorder.invoke("u", "create", "/s-", ("1", "sequential"), 0), 0)
    name = "/s-0000000000"
    recorder.ok(recorder.invoke("c1", "get", name, None, 1), ("OK", "1", 0), 1)
    assert check_tree(recorder.history())
    recorder.ok(recorder.invoke("c1", "get", name, None, 2), ("NO_NODE",), 2)
    assert not check_tree(recorder.history())


def test_paths_that_were_there_at_first() -> None:
    assert check_tree(told(("exists", "/a/b", None, ("OK", 0))), initial=["/a", "/a/b"])


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (("touch", "/a", None, ("OK",)), "does not know"),
        (("get", "a", None, ("OK", "", 0)), "no path"),
        (("get", "/a", None, "OK"), "answered 'OK'"),
        (("set", "/a", ("1",), ("OK", 1)), "data and a version"),
        (("create", "/a", ("", "ephemeral"), ("OK", "/a")), "create was given"),
        (("multi", None, (("get", "/a", None),), ("OK",)), "at place 0"),
    ],
)
def test_what_is_no_operation_of_a_tree_is_refused(
    call: tuple[str, Value, Value, Value], complaint: str
) -> None:
    with pytest.raises(BadHistory, match=complaint):
        check_tree(told(call), initial=["/a"])
