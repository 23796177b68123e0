"""An ordered writer's steps are known by their versions, however many there are."""

from __future__ import annotations

import pytest
from tests.core.mergetree.stand import CLIENT, Stand

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree import writer_state
from motet.core.mergetree.messages import (
    FindStep,
    NodeRefused,
    NoteWriter,
    PartsPublished,
    PublishedStep,
    PublishParts,
    ReadSteps,
    ReadWriters,
    StepFound,
    StepsAre,
    WritersAre,
)
from motet.core.mergetree.paths import WRITERS
from motet.core.metadata.messages import Create, Set
from motet.ids import RequestId, WriterName

W = WriterName("w")


def clock(epoch: int) -> Clock:
    return Clock(10 * (epoch + 1), 0)


def step(epoch: int) -> WriterStep:
    return WriterStep(W, epoch, clock(epoch - 1) if epoch else None, clock(epoch))


def ready() -> Stand:
    stand = Stand()
    stand.start()
    stand.write(Create(WRITERS))
    return stand


def publish(stand: Stand, epoch: int) -> PartsPublished:
    stand.receive(CLIENT, PublishParts(RequestId(epoch), (), step=step(epoch)))
    stand.settle()
    told = stand.answers[-1]
    assert isinstance(told, PartsPublished)
    return told


def published(stand: Stand, steps: int) -> list[PublishedStep]:
    """As whoever published them was told."""
    expected = []
    for epoch in range(steps):
        version = publish(stand, epoch).version
        expected.append(PublishedStep(epoch, step(epoch).after, step(epoch).through, version))
    return expected


def all_steps(stand: Stand, after_epoch: int = -1) -> list[PublishedStep]:
    found: list[PublishedStep] = []
    while True:
        stand.receive(CLIENT, ReadSteps(RequestId(0), W, after_epoch))
        stand.settle()
        page = stand.answers[-1]
        assert isinstance(page, StepsAre)
        found += page.steps
        if not page.more:
            return found
        after_epoch = page.steps[-1].epoch


@pytest.mark.parametrize("steps", [0, 1, 2, 63, 64, 65, 66, 200])
def test_all_steps_have_the_versions_that_were_told(steps: int) -> None:
    """T17."""
    stand = ready()
    expected = published(stand, steps)
    assert all_steps(stand) == expected
    for epoch in (0, steps // 2, steps):
        assert all_steps(stand, epoch) == expected[epoch + 1 :]


def test_a_repetition_and_a_note_change_no_version() -> None:
    stand = ready()
    expected = published(stand, 3)
    assert publish(stand, 1).is_duplicate
    stand.receive(CLIENT, NoteWriter(RequestId(0), W, "out of memory"))
    stand.settle()
    stand.receive(CLIENT, ReadWriters(RequestId(0)))
    stand.settle()
    told = stand.answers[-1]
    assert isinstance(told, WritersAre)
    assert [each.error for each in told.writers] == ["out of memory"]
    assert [each.version for each in told.writers] == [expected[-1].version]
    assert all_steps(stand) == expected


def test_a_note_may_come_before_the_first_step() -> None:
    stand = ready()
    stand.receive(CLIENT, NoteWriter(RequestId(0), W, "no table"))
    stand.settle()
    stand.receive(CLIENT, ReadWriters(RequestId(0), W))
    stand.settle()
    told = stand.answers[-1]
    assert isinstance(told, WritersAre)
    assert [(each.step, each.error) for each in told.writers] == [(None, "no table")]
    assert not publish(stand, 0).is_duplicate


@pytest.mark.parametrize("steps", [1, 5, 64, 65, 129, 200])
def test_the_step_that_reflects_a_clock_is_found(steps: int) -> None:
    stand = ready()
    expected = published(stand, steps)
    for epoch in {0, 1, steps // 2, steps - 1, 63, 64} & set(range(steps)):
        for wanted in (Clock(10 * epoch + 1, 0), clock(epoch)):
            stand.receive(CLIENT, FindStep(RequestId(0), W, wanted))
            stand.settle()
            assert stand.answers[-1] == StepFound(RequestId(0), expected[epoch])
    stand.receive(CLIENT, FindStep(RequestId(0), W, Clock(10 * steps + 1, 0)))
    stand.settle()
    assert stand.answers[-1] == StepFound(RequestId(0), None)


def test_steps_that_are_too_old_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_state, "chunks_max", 2)
    stand = ready()
    expected = published(stand, 300)
    kept = all_steps(stand)
    assert kept == expected[-len(kept) :]
    assert 128 <= len(kept) <= 3 * 64
    oldest = kept[0]
    for wanted, answer in ((oldest.through, oldest), (clock(3), None)):
        stand.receive(CLIENT, FindStep(RequestId(0), W, wanted))
        stand.settle()
        assert stand.answers[-1] == StepFound(RequestId(0), answer, answer is None)


@pytest.mark.parametrize("junk", [b"", b"junk", b"\xff", b"[]", b'{"epoch":"x"}'])
def test_junk_is_named(junk: bytes) -> None:
    stand = ready()
    stand.write(Create(f"{WRITERS}/w", b""), Set(f"{WRITERS}/w", junk, 0))
    for message in (
        ReadWriters(RequestId(1), W),
        ReadSteps(RequestId(1), W),
        FindStep(RequestId(1), W, clock(1)),
        PublishParts(RequestId(1), (), step=step(0)),
    ):
        stand.receive(CLIENT, message)
        stand.settle()
        told = stand.answers[-1]
        assert isinstance(told, NodeRefused)
        assert told.code == "BAD_RECORD"
