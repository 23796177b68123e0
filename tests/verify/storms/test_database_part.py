"""A database in its storm: the honest machine is ok, and each kind of lie is noticed by its rule."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Event, Send, Violation
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import CommitDone, FeedPage, StreamsRefused
from motet.core.streams.change import FeedChange, runs_of
from motet.core.tables.messages import PublishDone, TableIs, VisiblePart
from motet.errors import NoSuchTable
from motet.ids import TableName
from motet.sim.faults import PROFILES, Faults
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.storms.database import SEGMENT_BYTES, DatabaseRun, DatabaseStorm
from motet.verify.storms.database_clients import SERVER
from motet.verify.storms.publishing import AUDIT, INBOX, LARGE, Parts


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


def with_parts(send: Send, change: Callable[[Parts], Parts], *tables: TableName) -> Send:
    found = send.message
    if not isinstance(found, TableIs) or found.spec.name not in tables or not found.parts:
        return send
    return Send(send.to, msgspec.structs.replace(found, parts=change(found.parts)))


def hides_the_newest_of_one_table(send: Send) -> Send:
    return with_parts(send, lambda parts: parts[:-1], LARGE)


def hides_the_oldest(send: Send) -> Send:
    return with_parts(send, lambda parts: parts[1:], INBOX)


def shows_an_insert_twice(send: Send) -> Send:
    return with_parts(send, lambda parts: (*parts, parts[-1]), INBOX)


def tells_another_clock_of_an_insert(send: Send) -> Send:
    done = send.message
    if not isinstance(done, PublishDone) or send.to != "i1":
        return send
    return Send(send.to, msgspec.structs.replace(done, clock=Clock(1, 1)))


def confirms_what_it_did_not_do(send: Send) -> Send:
    """A step that was refused, or done before, is said to have been taken."""
    told = send.message
    if isinstance(told, PublishDone) and told.duplicate and send.to == "p1":
        return Send(send.to, msgspec.structs.replace(told, duplicate=False))
    return send


def ends_slices_early(send: Send) -> Send:
    """The one who follows takes the last change of a slice for the next one's."""
    page = send.message
    if not isinstance(page, FeedPage) or send.to not in ("p1", "p2"):
        return send
    return with_changes(send, lambda changes: changes[:-1] or changes)


def forgets_a_table(send: Send) -> Send:
    found = send.message
    if not isinstance(found, TableIs) or not found.parts or send.to != "s1":
        return send
    return Send(send.to, StreamsRefused(found.request, NoSuchTable.code, "gone", ""))


def forgets_the_past(send: Send) -> Send:
    found = send.message
    if not isinstance(found, TableIs) or len(found.parts) < 3:
        return send
    return with_parts(send, lambda parts: parts[-2:], AUDIT, LARGE)


def hides_a_step(send: Send) -> Send:
    def rest(parts: Parts) -> Parts:
        return tuple(each for each in parts if each.step is None or each.step.epoch != 1)

    return with_parts(send, rest, AUDIT, LARGE)


def moves_the_begin(send: Send, epoch: int) -> Send:
    def moved(part: VisiblePart) -> VisiblePart:
        if part.step is None or part.step.epoch != epoch:
            return part
        step = msgspec.structs.replace(part.step, after=Clock(1, 1))
        return msgspec.structs.replace(part, step=step)

    return with_parts(send, lambda parts: tuple(map(moved, parts)), AUDIT, LARGE)


def moves_the_begin_of_the_first_slice(send: Send) -> Send:
    return moves_the_begin(send, 0)


def moves_the_begin_of_another_slice(send: Send) -> Send:
    return moves_the_begin(send, 3)


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (leaves_out_for_one, "S2"),
        (turns_round, "S2"),
        (shows_half, "S4"),
        (confirms_another_clock, "S1"),
        (says_nothing, "liveness"),
        (hides_the_newest_of_one_table, "T5"),
        (shows_an_insert_twice, "T2 T3"),
        (hides_the_oldest, "T2 T3"),
        (tells_another_clock_of_an_insert, "T3"),
        (confirms_what_it_did_not_do, "T5"),
        (ends_slices_early, "T4"),
        (forgets_a_table, "T1"),
        (forgets_the_past, "T5"),
        (hides_a_step, "T2 T4 T5"),
        (moves_the_begin_of_the_first_slice, "T4 T5"),
        (moves_the_begin_of_another_slice, "T4 T5"),
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
