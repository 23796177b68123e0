"""The toy in its storm: what its run notices, and what becomes of a notebook on a rotting disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.toy.notebook import Notebook, Phase, Recalled, Refused, Remember, Remembered
from tests.toy.storm import EARLY, SERVER, ToyPart, ToyRun

from motet.core.machine import Effect, Event, Send
from motet.sim.faults import PROFILES, DiskFaults, Faults, NodeFaults
from motet.sim.host import Host
from motet.sim.nemesis import Nemesis
from motet.sim.storm import simulate
from motet.sim.world import World


class Spoiled(Notebook):
    """A notebook whose answers are changed on their way out."""

    spoil: Callable[[Send], Send]

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        return [self.spoil(effect) if isinstance(effect, Send) else effect for effect in effects]


class Misplaced(Spoiled):
    """Confirms each value one position too high."""

    @staticmethod
    def spoil(send: Send) -> Send:
        message = send.message
        if isinstance(message, Remembered):
            return Send(send.to, Remembered(message.request, message.position + 1), send.after)
        return send


class Forgetful(Spoiled):
    """Leaves out the first value it is asked to recall."""

    @staticmethod
    def spoil(send: Send) -> Send:
        message = send.message
        if isinstance(message, Recalled):
            return Send(send.to, Recalled(message.request, message.values[1:]), send.after)
        return send


class Inventive(Spoiled):
    """Recalls a value that nobody brought."""

    @staticmethod
    def spoil(send: Send) -> Send:
        message = send.message
        if isinstance(message, Recalled):
            return Send(send.to, Recalled(message.request, [*message.values, "?"]), send.after)
        return send


class Deaf(Notebook):
    """Takes nothing, for ever."""

    def step(self, event: Event) -> list[Effect]:
        self.state.phase = Phase.BROKEN
        return [effect for effect in super().step(event) if isinstance(effect, Send)]


class SpoiledPart(ToyPart):
    """The toy with another notebook on its server."""

    def __init__(self, factory: Callable[[], Notebook]) -> None:
        self._factory = factory

    def prepare(self, world: World, plant: str | None) -> ToyRun:
        run = super().prepare(world, plant)
        world.nodes[SERVER].hosts["notes"].factory = self._factory
        return run


@pytest.mark.parametrize("spoiled", [Misplaced, Forgetful, Inventive])
def test_a_notebook_that_answers_wrongly_violates_t1_without_any_fault(
    spoiled: type[Notebook],
) -> None:
    outcome = simulate(SpoiledPart(spoiled), 1, profile="none")
    assert outcome.verdict == "violated"
    assert {violation.invariant for violation in outcome.violations} == {"T1"}


def test_a_notebook_that_never_serves_is_safe_and_stuck_and_that_is_a_violation() -> None:
    outcome = simulate(SpoiledPart(Deaf), 1, profile="none")
    assert [violation.invariant for violation in outcome.violations] == ["liveness"]


def test_the_honest_notebook_is_ok_in_every_profile() -> None:
    for profile in PROFILES:
        for seed in range(12):
            outcome = simulate(ToyPart(), seed, profile=profile)
            assert outcome.verdict == "ok", (profile, seed, outcome.violations)


def test_the_planted_bug_is_found_where_nodes_crash() -> None:
    found = (simulate(ToyPart(), seed, profile="crash", plant=EARLY) for seed in range(100))
    failure = next(outcome for outcome in found if outcome.verdict != "ok")
    assert {violation.invariant for violation in failure.violations} == {"T1"}


def test_the_part_claims_to_survive_all_but_a_damaged_disk() -> None:
    run = ToyPart().prepare(World(1, Faults()), None)
    refused = {"rot", "read_error"}
    faults = {"crash", "pause", "partition", "slow_disk", "full_disk", "clock_jump", *refused}
    assert {fault for fault in faults if not run.permits(fault, SERVER)} == refused


# Rot, which one copy cannot survive, is noticed


ROTTING = Faults(
    disk=DiskFaults(lost=0.3, torn=0.3, rot_interval_ms=40),
    nodes=NodeFaults(crash_interval_ms=60, down_ms_max=5),
)


class Watch:
    """What a notebook was given, and whether it ever answered what it could not know."""

    def __init__(self) -> None:
        self.given: set[str] = set()
        self.phases: set[Phase] = set()
        self.false: list[str] = []

    def saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Remember):
                self.given.add(effect.message.value)
        machine = host.machine
        if not isinstance(machine, Notebook):
            return
        self.phases.add(machine.state.phase)
        answers = [effect.message for effect in effects if isinstance(effect, Send)]
        for answer in answers:
            if isinstance(answer, Recalled):
                self.false += [value for value in answer.values if value not in self.given]
            if machine.state.phase is Phase.BROKEN and not isinstance(answer, Refused):
                self.false.append(f"{answer} while broken")


def test_a_rotten_journal_is_noticed_and_nothing_is_served_from_it() -> None:
    broken = rotten = 0
    for seed in range(40):
        world, watch = World(seed, ROTTING), Watch()
        ToyPart().prepare(world, None)
        world.observe(watch.saw)
        for node in world.nodes.values():
            world.start(node)
        Nemesis(world).unleash()
        world.run(2_000)
        assert watch.false == []
        assert world.violations == []
        broken += Phase.BROKEN in watch.phases
        rotten += "rot" in world.marks
    assert rotten == 40
    assert broken > 20
