"""Entries of many parts name manifests, which are there before the entry and as long as it."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.mergetree.stand import CLIENT, N1, PATHS, Stand, header
from tests.core.mergetree.test_publishing import publish, ready, staged

from motet.core.mergetree.messages import NodeRefused, PartsPublished, PublishParts
from motet.core.mergetree.state import Phase
from motet.core.metadata.messages import ANY_VERSION, Create, Delete, Read, Set


def many(count: int) -> PublishParts:
    return publish(*(staged(f"part-{n}", (N1, 1)) for n in range(count)))


@pytest.mark.parametrize("count", [50, 500, 1_500])
def test_many_parts_are_listed_in_manifests_and_executed_whole(count: int) -> None:
    """G8, M1, M3."""
    stand = ready()
    for number in range(count):
        part = header(f"part-{number}")
        stand.staged[part.id] = part
    stand.end()
    stand.begin()
    stand.settle_quietly()
    stand.receive(CLIENT, publish(*(staged(f"part-{n}", (N1, 2)) for n in range(count))))
    stand.settle_quietly()
    published = stand.answers[0]
    assert isinstance(published, PartsPublished)
    assert published.names[-1] == f"p_0.{count - 1}_0.{count - 1}_0"
    entry = stand.tree.get(PATHS.entry(0))
    assert entry is not None
    assert len(entry) < 4096
    job = f"{PATHS.staging}/publish-part-0"
    assert stand.tree.get(job) == b"published"
    sizes = [len(stand.tree.get(f"{job}/{name}") or b"") for name in stand.tree.names(job)]
    assert max(sizes) <= 48 * 1024
    assert [each.header.id for each in stand.state.history.blocks.values()] == [
        f"part-{n}" for n in range(count)
    ]
    assert len(stand.stored) == count
    again = Stand()
    again.tree, again.file, again.stored = stand.tree, stand.file, stand.stored
    again.start()
    assert again.state.phase is Phase.ACTIVE
    assert len(again.state.history.blocks) == count
    assert not again.state.queue
    for _ in range(10):
        stand.tick(70_000)
        stand.settle_quietly()
    assert stand.tree.get(job) == b"published"


def test_manifests_that_are_there_already_are_used() -> None:
    """M2: the node that wrote them has lost its session before the multi."""
    stand = ready()
    stand.receive(CLIENT, many(100))
    job = f"{PATHS.staging}/publish-part-0"
    while len(stand.tree.names(job)) < 2:
        stand.answer()
    stand.end()
    stand.begin()
    stand.settle()
    assert isinstance(stand.answers[0], NodeRefused)
    stand.receive(CLIENT, many(100))
    stand.settle()
    assert isinstance(stand.answers[1], PartsPublished)
    assert len(stand.tree.names(job)) == 2
    assert stand.state.history.next_number == 1


def test_a_job_that_is_collected_while_manifests_are_written() -> None:
    stand = ready()
    stand.write(Create(PATHS.staging), Create(PATHS.job("j"), b"open"), Create(PATHS.lease("j")))
    stand.receive(CLIENT, msgspec.structs.replace(many(100), jobs=("j",)))
    stand.answer(Read)
    stand.write(Delete(PATHS.lease("j"), 0), Delete(PATHS.job("j"), 0))
    stand.settle()
    refused = stand.answers[0]
    assert isinstance(refused, NodeRefused)
    assert refused.code == "STAGING_ENDED"


def test_a_manifest_that_is_gone_is_told_and_waited_for() -> None:
    stand = ready()
    stand.receive(CLIENT, many(100))
    while stand.tree.get(PATHS.entry(0)) is None:
        stand.answer()
    job = f"{PATHS.staging}/publish-part-0"
    name = next(name for name in stand.tree.names(job) if name != "lease")
    data = stand.tree.get(f"{job}/{name}") or b""
    stand.write(Create(f"{job}/other"))
    stand.write(Delete(f"{job}/{name}", ANY_VERSION))
    stand.settle()
    stand.tick()
    stand.settle()
    assert any(each.what == "table_bad_entry" for each in stand.notes)
    assert stand.state.history.next_number == 0
    stand.write(Create(f"{job}/{name}", b"junk"))
    stand.tick()
    stand.settle()
    assert stand.state.history.next_number == 0
    stand.write(Set(f"{job}/{name}", data, 0))
    stand.tick()
    stand.settle()
    assert stand.state.history.next_number == 1
