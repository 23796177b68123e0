"""A publication is done once, as a whole, or not at all, whatever happens on its way."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.mergetree.stand import CLIENT, N1, N2, PATHS, TABLE, Stand, header, insert

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.machine import Message
from motet.core.mergetree.entries import QuorumStatus, encode_status
from motet.core.mergetree.messages import (
    BlockInserted,
    Holder,
    HoldPart,
    NodeRefused,
    PartHeld,
    PartsPublished,
    PublishParts,
    StagedPart,
    TablePublication,
)
from motet.core.mergetree.paths import WRITERS, entry_number
from motet.core.mergetree.tokens import UsedToken
from motet.core.metadata.messages import (
    METADATA,
    Create,
    Delete,
    Read,
    Set,
    Unknown,
    Write,
)
from motet.ids import NodeId, PartId, RequestId, TableId

LAST_STEP = WriterStep("w", 0, None, Clock(1, 0))


def staged(part: str, *holders: tuple[NodeId, int], shard: int = 0) -> StagedPart:
    return StagedPart(shard, header(part), tuple(Holder(*each) for each in holders))


def publish(*parts: StagedPart, token: str = "x", **changes: object) -> PublishParts:
    publication = TablePublication(TABLE, 0, parts, content="c")
    message = PublishParts(RequestId(1), (publication,), token)
    return msgspec.structs.replace(message, **changes)


FAIR = publish(staged("a", (N1, 1)))


def ready() -> Stand:
    stand = Stand()
    stand.start()
    stand.write(Create(WRITERS))
    return stand


def with_table(**changes: object) -> PublishParts:
    return publish(tables=(msgspec.structs.replace(FAIR.tables[0], **changes),))


@pytest.mark.parametrize(
    "message",
    [
        msgspec.structs.replace(FAIR, producer="p"),
        msgspec.structs.replace(FAIR, token="", producer="p", number=-1),
        msgspec.structs.replace(FAIR, step=LAST_STEP),
        msgspec.structs.replace(FAIR, token="\n"),
        msgspec.structs.replace(FAIR, tables=FAIR.tables * 2),
        msgspec.structs.replace(FAIR, jobs=("",) * 17),
        msgspec.structs.replace(FAIR, jobs=("\0",)),
        msgspec.structs.replace(FAIR, token="", step=msgspec.structs.replace(LAST_STEP, epoch=-1)),
        msgspec.structs.replace(
            FAIR, token="", step=msgspec.structs.replace(LAST_STEP, writer="a/b")
        ),
        msgspec.structs.replace(
            FAIR, token="", step=msgspec.structs.replace(LAST_STEP, after=Clock(2, 0))
        ),
        publish(staged("a", (N1, 1)), staged("a", (N1, 1))),
        publish(staged("a")),
        publish(staged("a/b", (N1, 1))),
        publish(staged("a", (NodeId("../n1"), 1))),
        publish(staged("a", (N1, 1), shard=-1)),
        publish(*(staged(f"a{n}", (N1, 1)) for n in range(5_000))),
        with_table(table=TableId("a/b")),
        with_table(content=""),
        with_table(replace=("a/b",)),
        with_table(name_path="/motet/table_data"),
    ],
)
def test_what_no_publication_may_say_is_refused_before_any_work(message: Message) -> None:
    stand = ready()
    stand.receive(CLIENT, message)
    assert isinstance(stand.answers[0], NodeRefused)
    assert stand.answers[0].code in ("BAD_INPUT", "TOO_LARGE", "BAD_SCHEMA")
    assert not stand.asked
    assert not stand.sent


def test_what_is_too_large_for_one_multi_is_refused_before_any_work() -> None:
    """G5: it says how many operations it takes, and what to do."""
    stand = ready()
    nodes = [(NodeId(f"n{n}"), 1) for n in range(15)]
    parts = [staged(f"a{shard}", *nodes, shard=shard) for shard in range(256)]
    stand.receive(CLIENT, publish(*parts))
    refused = stand.answers[0]
    assert isinstance(refused, NodeRefused)
    assert refused.code == "TOO_LARGE"
    assert "256 shards takes 4098 operations" in refused.what
    assert "fewer tables or shards" in refused.advice
    assert not stand.asked


def test_three_replicas_of_256_shards_fit() -> None:
    stand = ready()
    nodes = [(NodeId(f"n{n}"), 1) for n in range(3)]
    stand.receive(CLIENT, publish(*(staged(f"a{s}", *nodes, shard=s) for s in range(256))))
    assert not stand.answers
    assert stand.asked


def test_a_publication_that_meets_its_twin_is_done_once() -> None:
    """T7: both have read that nothing is there; the second one's multi is refused, and it reads again."""
    stand = ready()
    stand.receive(CLIENT, FAIR)
    stand.receive(CLIENT, msgspec.structs.replace(FAIR, request=RequestId(2)))
    stand.answer(Read)
    stand.answer(Read)
    stand.settle()
    first, second = stand.answers
    assert isinstance(first, PartsPublished)
    assert isinstance(second, PartsPublished)
    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert second.version.zxid >= first.version.zxid
    assert len(stand.tree.names(PATHS.log)) == 1


def test_a_job_is_published_or_collected_and_never_both() -> None:
    """T4, J1: the collector comes between the publication's read and its multi."""
    stand = ready()
    stand.write(Create(PATHS.staging), Create(PATHS.job("j"), b"open"))
    stand.receive(CLIENT, msgspec.structs.replace(FAIR, jobs=("j",)))
    stand.answer(Read)
    stand.write(Set(PATHS.job("j"), b"collected", 0))
    stand.settle()
    refused = stand.answers[0]
    assert isinstance(refused, NodeRefused)
    assert refused.code == "STAGING_ENDED"
    assert stand.tree.names(PATHS.log) == ()
    stand.receive(CLIENT, msgspec.structs.replace(FAIR, request=RequestId(2), jobs=("j",)))
    stand.settle()
    assert isinstance(stand.answers[1], NodeRefused)


def test_a_job_that_is_published_is_not_collected() -> None:
    stand = ready()
    stand.write(Create(PATHS.staging), Create(PATHS.job("j"), b"open"), Create(PATHS.lease("j")))
    stand.receive(CLIENT, msgspec.structs.replace(FAIR, jobs=("j",)))
    stand.settle()
    assert isinstance(stand.answers[0], PartsPublished)
    assert stand.tree.get(PATHS.job("j")) == b"published"


def test_the_token_of_an_open_block_is_waited_for() -> None:
    """T22: an insert under the token is visible when its quorum has ended."""
    stand = ready()
    used = msgspec.json.encode(UsedToken(PartId("b"), "c", 0))
    status = Create(PATHS.status(PartId("b")), encode_status(QuorumStatus(2, (N2,))))
    stand.write(Create(PATHS.token("x"), used), status)
    stand.receive(CLIENT, FAIR)
    stand.answer(Read)
    stand.answer(Read)
    assert not stand.answers
    stand.tick()
    stand.settle()
    assert not stand.answers
    stand.write(Delete(PATHS.status(PartId("b")), 0))
    stand.tick()
    stand.settle()
    published = stand.answers[0]
    assert isinstance(published, PartsPublished)
    assert published.is_duplicate


def test_the_token_of_a_block_that_has_failed_is_used_anew() -> None:
    stand = ready()
    used = msgspec.json.encode(UsedToken(PartId("b"), "c", 0))
    status = Create(PATHS.status(PartId("b")), encode_status(QuorumStatus(2, (N2,))))
    stand.write(Create(PATHS.token("x"), used), status)
    stand.receive(CLIENT, FAIR)
    stand.answer(Read)
    stand.answer(Read)
    stand.write(Delete(PATHS.status(PartId("b")), 0), Delete(PATHS.token("x"), 0))
    stand.tick()
    stand.settle()
    published = stand.answers[0]
    assert isinstance(published, PartsPublished)
    assert not published.is_duplicate


def test_a_publication_of_one_part_and_its_insert_are_known_by_one_token() -> None:
    """T7: a retry may find that its rows fit into one part after all."""
    stand = ready()
    stand.receive(CLIENT, FAIR)
    stand.settle()
    again = msgspec.structs.replace(insert("b", token="x"), content="c")
    stand.receive(CLIENT, again)
    stand.settle()
    inserted = stand.told[-1]
    assert isinstance(inserted, BlockInserted)
    assert inserted.is_duplicate


def test_two_publications_without_a_name_are_told_apart_by_their_parts() -> None:
    """G2."""
    stand = ready()
    for number, part in enumerate(("a", "b", "a")):
        nameless = publish(staged(part, (N1, 1)), token="", request=RequestId(number))
        stand.receive(CLIENT, nameless)
        stand.settle()
    told = [each for each in stand.answers if isinstance(each, PartsPublished)]
    assert [each.is_duplicate for each in told] == [False, False, True]


def test_a_name_that_stands_for_another_table_is_refused() -> None:
    """T27."""
    stand = ready()
    stand.write(Create("/motet/tables"), Create("/motet/tables/events", b"t"))
    stand.write(Set("/motet/tables/events", b"u", 0))
    stand.receive(CLIENT, with_table(name_path="/motet/tables/events", name_version=0))
    stand.settle()
    refused = stand.answers[0]
    assert isinstance(refused, NodeRefused)
    assert refused.code == "TABLE_MOVED"
    assert stand.tree.names(PATHS.log) == ()


def test_a_definition_that_changes_meanwhile_is_read_again() -> None:
    """T19."""
    stand = ready()
    stand.receive(CLIENT, FAIR)
    stand.answer(Read)
    stand.write(Set(PATHS.definition, b'{"shards":1}', 0))
    stand.settle()
    assert isinstance(stand.answers[0], PartsPublished)
    stand.write(Set(PATHS.definition, b'{"is_dropped":true}', 1))
    stand.receive(CLIENT, publish(staged("b", (N1, 1)), token="y"))
    stand.settle()
    refused = stand.answers[1]
    assert isinstance(refused, NodeRefused)
    assert refused.code == "NO_SUCH_TABLE"


def test_a_commit_that_nobody_knows_of_is_looked_for_after_another_write() -> None:
    """G4: the unknown one takes effect late, but before what was sent after it."""
    stand = ready()
    stand.receive(CLIENT, FAIR)
    stand.answer(Read)
    late = stand.take(Write)
    stand.receive(METADATA, Unknown(late.request))
    assert not stand.answers
    stand.tree.answer(late)
    stand.settle()
    published = stand.answers[0]
    assert isinstance(published, PartsPublished)
    assert published.is_duplicate
    assert len(stand.tree.names(PATHS.log)) == 1


def test_when_the_session_is_over_an_unknown_commit_stays_unknown() -> None:
    stand = ready()
    stand.receive(CLIENT, FAIR)
    stand.answer(Read)
    stand.take(Write)
    stand.end()
    refused = stand.answers[0]
    assert isinstance(refused, NodeRefused)
    assert refused.code == "OUTCOME_UNKNOWN"


def test_a_holder_that_answers_late_is_of_use_to_nobody() -> None:
    stand = ready()
    stand.receive("n2", PartHeld(TABLE, 0, PartId("a"), 3))
    assert not stand.asked
    stand.receive(CLIENT, publish(staged("a", (N2, 7))))
    stand.answer(Read)
    stand.answer(Write)
    stand.receive("n2", PartHeld(TABLE, 0, PartId("b"), 0))
    stand.receive("n2", PartHeld(TABLE, 1, PartId("a"), 0))
    assert not stand.asked
    stand.receive("n2", PartHeld(TABLE, 0, PartId("a"), 0))
    stand.settle()
    assert isinstance(stand.answers[0], PartsPublished)


def test_of_what_a_holder_said_its_newest_version_counts() -> None:
    """G3: it restarted while parts were staged; it is asked for those that it held before."""
    stand = ready()
    stand.receive(CLIENT, publish(staged("a", (N2, 0)), staged("b", (N2, 1)), staged("c", (N2, 0))))
    stand.answer(Read)
    held = {each.part.id for _, each in stand.sent if isinstance(each, HoldPart)}
    assert held == {"a", "c"}


def test_an_overwrite_of_nothing_by_nothing_appends_to_each_shard() -> None:
    stand = ready()
    stand.write(Set(PATHS.definition, b'{"shards":1}', 0))
    stand.receive(CLIENT, publish(token="", tables=(TablePublication(TABLE, 0, (), ("p",)),)))
    stand.settle()
    assert isinstance(stand.answers[0], PartsPublished)
    assert [entry_number(name) for name in stand.tree.names(PATHS.log)] == [0]


def test_without_a_session_nothing_is_published() -> None:
    stand = Stand()
    stand.receive(CLIENT, FAIR)
    refused = stand.answers[0]
    assert isinstance(refused, NodeRefused)
    assert "no session" in refused.what
