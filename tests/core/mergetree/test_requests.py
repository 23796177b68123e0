"""Whatever a client or a peer sends is answered, and reaches no node of the keeper that it is not about."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.mergetree.stand import CLIENT, N2, PATHS, TABLE, Stand, header, insert

from motet.core.machine import Message
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    DropPartitions,
    HoldPart,
    InsertBlock,
    ListParts,
    LogHas,
    PartBytes,
    PartHeld,
    PartPushed,
    PartsListed,
    StagePart,
    TableRefused,
)
from motet.core.mergetree.paths import ShardPaths, token_name
from motet.core.mergetree.state import Phase
from motet.core.metadata.messages import METADATA, Create, Delete, Read, Unknown, Write
from motet.ids import PartId, RequestId, TableId, Zxid

FAIR = insert("a")


def with_part(**changes: object) -> InsertBlock:
    return msgspec.structs.replace(FAIR, part=msgspec.structs.replace(FAIR.part, **changes))


@pytest.mark.parametrize(
    "message",
    [
        *(msgspec.structs.replace(FAIR, quorum=quorum) for quorum in (-1, 3, 2**63)),
        *(msgspec.structs.replace(FAIR, token=token) for token in ("", "x" * 129, "\n", "\0")),
        *(with_part(id=part) for part in ("", ".", "..", "a/b", "../host", "\0", "x" * 65, "é")),
        *(with_part(partition=each) for each in ("", "a/b", "x" * 129, "\x1f", "\x7f")),
        *(
            with_part(rows=-1),
            with_part(size_bytes=2**64),
            with_part(hash=""),
            with_part(hash="h" * 999),
        ),
        msgspec.structs.replace(FAIR, content=""),
        msgspec.structs.replace(FAIR, block=PartBytes("arrow", b"", bytes(100))),
        msgspec.structs.replace(FAIR, block=PartBytes("parquet", b"", bytes(99))),
        msgspec.structs.replace(FAIR, block=PartBytes("parquet", bytes((2 << 20) + 1), bytes(100))),
        StagePart(TABLE, 0, RequestId(1), header("a/b")),
        StagePart(TABLE, 0, RequestId(1), header("a"), 3),
        StagePart(TABLE, 0, RequestId(1), header("a"), job="\0"),
        msgspec.structs.replace(FAIR, name_path="/motet/table_data/t/definition"),
        msgspec.structs.replace(FAIR, name_path="/motet/tables/a/b"),
        msgspec.structs.replace(FAIR, name_path="/motet/tables/a", name_version=-1),
        msgspec.structs.replace(FAIR, name_path="/motet/tables/a", name_version=2**40),
        DropPartitions(TABLE, 0, RequestId(1), ("a/b",)),
        DropPartitions(TABLE, 0, RequestId(1), tuple(str(n) for n in range(2_000))),
        DropPartitions(TABLE, 0, RequestId(1), None, "/motet"),
        ListParts(TableId("other"), 0, RequestId(1), 0, Zxid(0)),
        ListParts(TABLE, 7, RequestId(1), 0, Zxid(0)),
    ],
)
def test_what_no_request_may_say_is_refused_before_any_work(message: Message) -> None:
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, message)
    assert isinstance(stand.told[0], TableRefused)
    assert stand.told[0].code in ("BAD_INPUT", "NODE", "TOO_LARGE")
    assert not stand.working
    assert not stand.asked


@pytest.mark.parametrize("token", ["a/b", "..", ".", "%2E", "a b", "é", "/", "x" * 128])
def test_a_token_may_say_anything_printable(token: str) -> None:
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, insert("a", token=token))
    stand.settle()
    assert isinstance(stand.told[0], BlockInserted)
    stand.receive(CLIENT, msgspec.structs.replace(insert("b", token=token), content="a"))
    stand.settle()
    assert isinstance(stand.told[1], BlockInserted)
    assert stand.told[1].is_duplicate
    assert stand.told[1].name == stand.told[0].name


def test_no_two_tokens_have_one_node() -> None:
    tokens = ["..", "%2E.", ".", "%2E", "%252E", "a/b", "a%2Fb", "A%2fb"]
    assert len({token_name(token) for token in tokens}) == len(tokens)
    assert all("/" not in token_name(token) for token in tokens)


@pytest.mark.parametrize("head", [-(2**63), -5, -1, 0, 2**63 - 1])
@pytest.mark.parametrize("version", [-(2**63), -2, 0, 2**63 - 1])
def test_any_head_and_version_is_answered(head: int, version: int) -> None:
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, ListParts(TABLE, 0, RequestId(1), head, Zxid(version)))
    stand.settle()
    stand.tick(20_000)
    stand.settle()
    assert len(stand.told) == 1
    assert isinstance(stand.told[0], TableRefused if head >= 0 else PartsListed)


def test_hints_of_any_number_are_looked_into() -> None:
    stand = Stand()
    stand.start()
    for number in (-(2**63), -1, 0, 2**63 - 1):
        stand.receive("n2", LogHas(TABLE, 0, number))
        stand.settle()
    assert stand.state.phase is Phase.ACTIVE


def test_a_token_of_another_shard_is_not_waited_for() -> None:
    """T7: tokens are per table."""
    stand = Stand()
    stand.start()
    token = PATHS.token("token-of-a")
    stand.write(Create(token, b'{"part":"z","content":"a","shard":1}'))
    stand.receive(CLIENT, FAIR)
    stand.settle()
    assert isinstance(stand.told[0], TableRefused)
    assert stand.told[0].code == "TOKEN_REUSED"


def test_so_many_requests_wait_and_no_more() -> None:
    stand = Stand(MergeTreeConfig(requests_max=2))
    stand.start()
    for number in range(3):
        stand.receive(CLIENT, insert(f"a{number}", request=number))
        stand.receive(CLIENT, ListParts(TABLE, 0, RequestId(10 + number), 5, Zxid(99)))
    assert [(each.request, each.code) for each in stand.told if isinstance(each, TableRefused)] == [
        (2, "TABLE_BUSY"),
        (12, "TABLE_BUSY"),
    ]


def test_a_changed_name_is_told_from_everything_else() -> None:
    """T27, with a quorum and without."""
    for quorum in (1, 2):
        stand = Stand()
        stand.write(Create("/motet/tables"), Create("/motet/tables/x", b"t"))
        stand.write(Create(PATHS.replica(stand.others[0]).is_active))
        stand.start()
        message = insert("a", quorum=quorum)
        named = msgspec.structs.replace(message, name_path="/motet/tables/x", name_version=0)
        stand.receive(CLIENT, named)
        stand.work()
        stand.answer(Read)
        stand.write(Delete("/motet/tables/x", 0))
        stand.settle()
        assert isinstance(stand.told[0], TableRefused)
        assert "another name" in stand.told[0].what


def test_a_name_is_checked_and_a_changed_definition_is_read_again() -> None:
    """T19, T27."""
    stand = Stand()
    stand.write(Create("/motet/tables"), Create("/motet/tables/x", b"t"))
    stand.start()
    named = msgspec.structs.replace(FAIR, name_path="/motet/tables/x", name_version=0)
    stand.receive(CLIENT, named)
    stand.work()
    stand.answer(Read)
    stand.write(Delete(PATHS.definition, 0), Create(PATHS.definition, b"{}"))
    stand.settle()
    assert isinstance(stand.told[0], BlockInserted)


def test_a_part_id_is_used_once() -> None:
    """A copy of a message comes late, after the block has been dropped, or has failed."""
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, FAIR)
    stand.settle()
    stand.receive(CLIENT, DropPartitions(TABLE, 0, RequestId(2)))
    stand.settle()
    stand.write(Delete(PATHS.token("token-of-a"), 0))
    stand.receive(CLIENT, FAIR)
    stand.settle()
    assert isinstance(stand.told[-1], TableRefused)
    assert "id" in stand.told[-1].advice


def test_bytes_under_the_id_of_another_part_are_not_registered() -> None:
    """E6: another replica commits a part while a client sends other bytes under its id."""
    stand = Stand()
    stand.start()
    other = msgspec.structs.replace(FAIR, part=header("a", "other"), token="t2", content="other")
    stand.receive(CLIENT, other)
    stand.append_elsewhere("a")
    stand.receive("n2", LogHas(TABLE, 0, 0))
    stand.answer(Read)
    stand.work()
    stand.write(Create(PATHS.token("t2"), b'{"part":"a","content":"a","shard":0}'))
    stand.settle()
    stand.tick()
    stand.settle()
    assert isinstance(stand.told[0], TableRefused)
    own = stand.state.parts.get(PartId("a"))
    assert own is None or own.header.hash == "hash of a"


def test_a_retry_with_the_same_part_is_not_forgotten_under_its_registration() -> None:
    """The message goes to two replicas: the second finds the token, and its bytes are those of the block."""
    stand = Stand()
    stand.start()
    stand.receive(CLIENT, FAIR)
    stand.work()
    stand.append_elsewhere("a")
    use = b'{"part":"a","content":"a","shard":0}'
    stand.write(Create(PATHS.token("token-of-a"), use))
    stand.settle()
    assert isinstance(stand.told[0], BlockInserted)
    assert stand.told[0].is_duplicate
    assert stand.state.parts[FAIR.part.id].is_registered
    assert FAIR.part.id in stand.stored


def test_paths_of_a_shard_are_told_by_the_one_module() -> None:
    assert ShardPaths(TABLE, 0).token("a/b").endswith("/tokens/a%2Fb")


def test_a_refused_commit_is_not_sent_for_ever() -> None:
    """The tokens are gone with the table: no second attempt."""
    stand = Stand()
    stand.start()
    stand.write(Delete(f"{PATHS.root.rpartition('/shards/')[0]}/tokens", 0))
    stand.receive(CLIENT, FAIR)
    for _ in range(50):
        if not stand.asked and not stand.working:
            break
        if stand.working:
            stand.work()
        else:
            stand.answer()
    assert isinstance(stand.told[0], TableRefused)
    assert not [each for each in stand.asked if isinstance(each, Write)]


def test_a_copy_of_an_insert_that_nobody_knows_of_stores_nothing_again() -> None:
    """I4, E1: it was committed, and this replica has neither heard of that nor read its entry."""
    stand = Stand()
    stand.start()
    stand.aside[FAIR.part.id] = FAIR.part
    stand.receive(CLIENT, FAIR)
    stand.work()
    stand.answer(Read)
    commit = stand.take(Write)
    stand.tree.answer(commit)
    stand.receive(METADATA, Unknown(commit.request))
    for _ in range(11):
        stand.tick()
    assert isinstance(stand.told[0], TableRefused)
    assert stand.told[0].code == "OUTCOME_UNKNOWN"
    assert stand.state.history.of_part(FAIR.part.id) is None
    stand.receive(CLIENT, msgspec.structs.replace(FAIR, request=RequestId(2)))
    assert not stand.working
    stand.settle()
    answer = stand.told[1]
    assert isinstance(answer, BlockInserted)
    assert answer.is_duplicate
    assert FAIR.part.id in stand.stored


@pytest.mark.parametrize(
    "part", [header("a/b"), header(".."), msgspec.structs.replace(header("a"), size_bytes=7)]
)
def test_what_no_peer_may_say_leads_to_no_work(part: PartHeader) -> None:
    stand = Stand()
    stand.start()
    block = PartBytes("parquet", b"", bytes(100))
    stand.receive("n2", PartPushed(TABLE, 0, part, block))
    stand.receive("n2", HoldPart(TABLE, 0, part, N2, block=block))
    assert not stand.working
    assert [message for _, message in stand.sent] == [PartHeld(TABLE, 0, part.id, -1)]


def test_bytes_within_messages_are_bounded_for_all_replicas_of_a_node() -> None:
    """C3: what is being written counts, until it is written."""
    stand = Stand(MergeTreeConfig(block_bytes_max=250))
    stand.start()
    block = PartBytes("parquet", b"", bytes(100))
    for number, part in enumerate("abc"):
        message = msgspec.structs.replace(insert(part, request=number), block=block)
        stand.receive(CLIENT, message)
    assert [each.code for each in stand.told if isinstance(each, TableRefused)] == ["TABLE_BUSY"]
    stand.receive("n2", PartPushed(TABLE, 0, header("d"), block))
    assert len(stand.working) == 2
    stand.work()
    stand.receive("n2", PartPushed(TABLE, 0, header("e"), block))
    assert len(stand.working) == 2
    stand.settle()
    assert stand.node.node.memory.blocks_bytes == 0
    assert sum(isinstance(each, BlockInserted) for each in stand.told) == 2
