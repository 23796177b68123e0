"""A publication leaves out rows that a table with ``dedup="content"`` has, and nothing else (T9)."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.mergetree.stand import CLIENT, N1, N2, PATHS, TABLE, Stand, header

from motet.core.mergetree.dedup import BlockHash, encode_hash
from motet.core.mergetree.entries import (
    DropEntry,
    QuorumStatus,
    decode_entry,
    encode_entry,
    encode_status,
    parts_of,
)
from motet.core.mergetree.messages import (
    DropsAre,
    Holder,
    NodeRefused,
    PartsPublished,
    PublishParts,
    ReadDrops,
    StagedPart,
    TablePublication,
)
from motet.core.mergetree.paths import WRITERS
from motet.core.mergetree.publication import rows_of_request
from motet.core.metadata.messages import (
    ANY_VERSION,
    Create,
    Delete,
    Found,
    Get,
    Read,
    ReadDone,
    Set,
    Write,
)
from motet.ids import PartId, RequestId, Zxid
from motet.limits import publish_ops_max


def staged(part: str, rows: str, call: str = "", shard: int = 0) -> StagedPart:
    return StagedPart(shard, header(part), (Holder(N1, 1),), f"h{rows}", call or part)


def publish(*parts: StagedPart, token: str = "x", replace: tuple[str, ...] = ()) -> PublishParts:
    publication = TablePublication(TABLE, 0, parts, replace, content="c")
    return PublishParts(RequestId(1), (publication,), token)


def ready(*known: str, dedup: bool = True) -> Stand:
    """Rows that are known have come with a part of their name."""
    stand = Stand()
    if dedup:
        stand.write(Create(PATHS.blocks))
    stand.start()
    stand.write(Create(WRITERS))
    for rows in known:
        stand.append_elsewhere(f"old-{rows}")
        stand.write(Create(path_of(rows), encode_hash(BlockHash(PartId(f"old-{rows}")))))
    return stand


def path_of(rows: str) -> str:
    return PATHS.block_hash("p", f"h{rows}")


def drop(stand: Stand) -> None:
    """Somebody drops everything."""
    entry = encode_entry(DropEntry())
    stand.write(Set(PATHS.log, b"", ANY_VERSION), Create(PATHS.new_entry, entry, sequential=True))


def published(stand: Stand) -> tuple[str, ...]:
    """The parts of the last entry."""
    names = stand.tree.names(PATHS.log)
    found = stand.tree.get(f"{PATHS.log}/{names[-1]}")
    assert found is not None
    return tuple(part.id for part in parts_of(decode_entry(found)))


def log_set_at(stand: Stand) -> Zxid:
    """When the log was set last."""
    told = stand.tree.answer(Read(RequestId(0), stand.other, (Get(PATHS.log),)))
    assert isinstance(told, ReadDone)
    (found,) = told.results
    assert isinstance(found, Found)
    return found.stat.mzxid


def answer(stand: Stand) -> PartsPublished:
    (told,) = stand.answers
    assert isinstance(told, PartsPublished), told
    return told


def test_parts_of_a_call_are_left_out_together() -> None:
    """U5."""
    stand = ready("1")
    parts = (staged("a", "1", "call"), staged("b", "1", "call"), staged("c", "2"))
    stand.receive(CLIENT, publish(*parts))
    stand.settle()
    assert [bool(name) for name in answer(stand).names] == [False, False, True]
    assert published(stand) == ("c",)


def test_rows_that_are_staged_twice_are_published_once_however_they_are_divided() -> None:
    """U5: the first call counts, the parts of the second one are left out."""
    parts = (staged("a", "1", "one"), staged("b", "1", "two"), staged("c", "1", "two"))
    (rows,) = rows_of_request(publish(*parts))
    assert (rows.parts, rows.again) == (("a",), ("b", "c"))
    stand = ready()
    stand.receive(CLIENT, publish(*parts))
    stand.settle()
    assert published(stand) == ("a",)


def test_the_hash_is_made_with_the_part_that_brings_the_rows() -> None:
    """U6."""
    stand = ready()
    stand.receive(CLIENT, publish(staged("a", "1", "one"), staged("b", "1", "one")))
    stand.settle()
    assert stand.tree.get(path_of("1")) == b'{"part":"a"}'


def test_a_drop_between_the_read_and_the_multi_is_noticed() -> None:
    """U7: else the publication would show neither the old rows nor the new ones."""
    stand = ready("1")
    stand.receive(CLIENT, publish(staged("a", "1"), staged("b", "2")))
    stand.answer(Read)  # the hash, and who has brought the rows
    stand.answer(Read)  # its block is not open
    drop(stand)
    stand.settle()
    asked = [each.partitions for _, each in stand.sent if isinstance(each, ReadDrops)]
    assert asked == [("p",)]
    stand.tick()  # the replica has read the log meanwhile
    stand.settle()
    assert published(stand) == ("a", "b")
    assert all(answer(stand).names)


def test_twins_publish_their_rows_once() -> None:
    """U1: one multi is done; the other one finds the hash, and leaves the rows out."""
    stand = ready()
    first, second = publish(staged("a", "1")), publish(staged("b", "1"), token="y")
    stand.receive(CLIENT, first)
    stand.receive(CLIENT, msgspec.structs.replace(second, request=RequestId(2)))
    stand.answer(Read)
    stand.answer(Read)
    stand.settle()
    names = [
        name for each in stand.answers if isinstance(each, PartsPublished) for name in each.names
    ]
    assert [bool(name) for name in names] == [True, False]
    assert len(stand.tree.names(PATHS.log)) == 1


def test_an_open_block_is_waited_for() -> None:
    """U6."""
    stand = ready("1")
    status = PATHS.status(PartId("old-1"))
    stand.write(Create(status, encode_status(QuorumStatus(2, (N2,)))))
    stand.receive(CLIENT, publish(staged("a", "1"), staged("b", "2")))
    stand.settle()
    assert not stand.answers
    stand.tick()
    stand.settle()
    assert not stand.answers
    stand.write(Delete(status, ANY_VERSION))
    stand.tick()
    stand.settle()
    assert published(stand) == ("b",)


def test_what_stays_open_is_given_up() -> None:
    stand = ready("1")
    stand.write(Create(PATHS.status(PartId("old-1")), b"{}"))
    stand.receive(CLIENT, publish(staged("a", "1")))
    for _ in range(31):
        stand.tick()
        stand.settle()
    (refused,) = stand.answers
    assert isinstance(refused, NodeRefused)
    assert refused.code == "TABLE_BUSY"


def test_a_replica_tells_of_drops_when_it_has_read_the_log_so_far() -> None:
    """U9."""
    stand = ready()
    drop(stand)
    zxid = log_set_at(stand)
    stand.receive(N2, ReadDrops(TABLE, 0, ("p", "q"), zxid))
    assert not [each for _, each in stand.sent if isinstance(each, DropsAre)]
    stand.settle()
    stand.receive(N2, ReadDrops(TABLE, 0, ("p", "q"), zxid))
    (told,) = [each for _, each in stand.sent if isinstance(each, DropsAre)]
    assert (told.drops, told.through) == ((zxid, zxid), zxid)


def test_what_a_publication_replaces_is_published_anew() -> None:
    """U8."""
    stand = ready("1")
    stand.receive(CLIENT, publish(staged("a", "1"), replace=("p",)))
    stand.settle()
    assert published(stand) == ("a",)
    assert stand.tree.get(path_of("1")) == b'{"part":"a"}'


def test_a_token_of_rows_that_are_left_out_is_that_of_who_brought_them() -> None:
    """An insert with the token waits for a block that is there."""
    stand = ready("1")
    stand.write(Create(PATHS.staging), Create(PATHS.job("j"), b"open"))
    message = msgspec.structs.replace(publish(staged("a", "1")), jobs=("j",))
    stand.receive(CLIENT, message)
    stand.settle()
    assert answer(stand).names == ("",)
    assert b'"old-1"' in (stand.tree.get(PATHS.token("x")) or b"")
    assert stand.tree.get(PATHS.job("j")) == b"published"
    assert len(stand.tree.names(PATHS.log)) == 1, "that of the rows that were there"


def test_a_table_without_dedup_takes_no_hashes() -> None:
    stand = ready(dedup=False)
    stand.receive(CLIENT, publish(staged("a", "1")))
    stand.settle()
    (refused,) = stand.answers
    assert isinstance(refused, NodeRefused)
    assert "does not tell rows apart" in refused.what


@pytest.mark.parametrize("hash_", ["a\nb", "h" * 129])
def test_a_hash_is_a_word_of_a_path(hash_: str) -> None:
    stand = ready()
    stand.receive(CLIENT, publish(msgspec.structs.replace(staged("a", "1"), dedup_hash=hash_)))
    (refused,) = stand.answers
    assert isinstance(refused, NodeRefused)
    assert refused.code == "BAD_INPUT"
    assert not stand.asked


def test_hashes_count_among_the_operations() -> None:
    """G5: refused before any work."""
    stand = ready()
    parts = [staged(f"a{n}", str(n)) for n in range(publish_ops_max)]
    stand.receive(CLIENT, publish(*parts))
    (refused,) = stand.answers
    assert isinstance(refused, NodeRefused)
    assert refused.code == "TOO_LARGE"
    assert not [each for each in stand.asked if isinstance(each, Write)]
