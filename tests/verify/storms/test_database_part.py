"""A database in its storm: the honest machine is ok, and each kind of lie is noticed by its rule."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from motet.core.machine import Effect, Event, Send, Violation
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import CommitDone, FeedPage, FeedSplit
from motet.core.streams.change import FeedChange, runs_of
from motet.sim.faults import PROFILES, Faults
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.storms.database import SEGMENT_BYTES, DatabaseRun, DatabaseStorm
from motet.verify.storms.database_clients import SERVER


class Spoiled:
    """Streams whose answers are changed on their way out."""

    def __init__(self, spoil: Callable[[Send], Send | None]) -> None:
        self._machine = StreamsMachine(SEGMENT_BYTES)
        self._spoil = spoil

    def step(self, event: Event) -> list[Effect]:
        spoiled = [
            self._spoil(effect) if isinstance(effect, Send) else effect
            for effect in self._machine.step(event)
        ]
        return [effect for effect in spoiled if effect is not None]

    def invariants(self) -> list[Violation]:
        return []


class SpoiledPart(DatabaseStorm):
    """The part with another machine on its server."""

    def __init__(self, spoil: Callable[[Send], Send | None]) -> None:
        self._spoil = spoil

    def prepare(self, world: World, plant: str | None) -> DatabaseRun:
        run = super().prepare(world, plant)
        world.nodes[SERVER].hosts["streams"].factory = lambda: Spoiled(self._spoil)
        return run


def with_changes(
    send: Send, change: Callable[[tuple[FeedChange, ...]], tuple[FeedChange, ...]]
) -> Send:
    page = send.message
    if not isinstance(page, FeedPage) or not page.changes:
        return send
    runs = tuple(runs_of(change(page.changes)))
    return Send(send.to, msgspec.structs.replace(page, runs=runs))


def leaves_out_for_one(send: Send) -> Send:
    return with_changes(send, lambda all_: all_[1:]) if send.to == "r1" else send


def turns_round(send: Send) -> Send:
    return with_changes(send, lambda all_: all_[::-1])


def shows_half(send: Send) -> Send:
    return with_changes(send, lambda all_: tuple(each for each in all_ if each.index == 0))


def confirms_another_clock(send: Send) -> Send:
    done = send.message
    if not isinstance(done, CommitDone):
        return send
    other = msgspec.structs.replace(done.clock, counter=done.clock.counter + 1_000)
    return Send(send.to, msgspec.structs.replace(done, clock=other))


def says_nothing(_: Send) -> None:
    return None


def cuts_nothing(send: Send) -> Send:
    """Who reads by slices is told that nothing is there."""
    found = send.message
    if not isinstance(found, FeedSplit):
        return send
    return Send(send.to, msgspec.structs.replace(found, changes=0))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (leaves_out_for_one, "S2"),
        (turns_round, "S2"),
        (shows_half, "S4"),
        (confirms_another_clock, "S1"),
        (says_nothing, "liveness"),
        (cuts_nothing, "S2"),
    ],
)
def test_a_node_that_lies_is_noticed_without_any_fault(
    spoil: Callable[[Send], Send | None], rule: str
) -> None:
    outcome = simulate(SpoiledPart(spoil), 1, profile="none")
    assert {violation.invariant for violation in outcome.violations} == set(rule.split())


def test_the_honest_machine_is_ok_in_every_profile() -> None:
    for profile in PROFILES:
        for seed in range(4):
            outcome = simulate(DatabaseStorm(), seed, profile=profile)
            assert outcome.verdict == "ok", (profile, seed, outcome.violations)


def test_the_part_claims_to_survive_all_but_rot() -> None:
    run = DatabaseStorm().prepare(World(1, Faults()), None)
    faults = ("crash", "pause", "partition", "slow_disk", "full_disk", "read_error", "rot")
    assert [fault for fault in faults if not run.permits(fault, SERVER)] == ["rot"]
