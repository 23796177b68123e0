"""The cluster clock in its storm: what is watched is noticed, and an honest clock passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from motet.core.clock.hlc import Clock
from motet.core.clock.messages import Tick, Ticked
from motet.core.clock.node_clock import NodeClock
from motet.core.machine import Effect, Event, Fired, Now, Received, Send
from motet.ids import NodeId, RequestId, TimerName
from motet.sim.faults import PROFILES, Faults
from motet.sim.simulate import simulate
from motet.sim.world import World
from motet.verify.parts.clock import FORGETS, HURRIES, NODES, Client, ClockPart, ClockRun


class Spoiled(NodeClock):
    """A clock whose ticks are changed on their way out."""

    def step(self, event: Event) -> list[Effect]:
        return [spoiled(effect, self.change) for effect in super().step(event)]

    def change(self, clock: Clock) -> Clock:
        raise NotImplementedError


class Frozen(Spoiled):
    """Hands out the same clock for ever."""

    def change(self, clock: Clock) -> Clock:
        return Clock(1, 1)


class Hasty(Spoiled):
    """Runs an hour ahead of every wall."""

    def change(self, clock: Clock) -> Clock:
        return Clock(clock.logical + 3_600_000, clock.counter)


def spoiled(effect: Effect, change: Callable[[Clock], Clock]) -> Effect:
    if isinstance(effect, Send) and isinstance(effect.message, Ticked):
        ticked = Ticked(RequestId(effect.message.request), change(effect.message.clock))
        return Send(effect.to, ticked, effect.after)
    return effect


class SpoiledPart(ClockPart):
    """The clock part with other clocks."""

    def __init__(self, kind: type[NodeClock]) -> None:
        self._kind = kind

    def prepare(self, world: World, plant: str | None) -> ClockRun:
        run = super().prepare(world, plant)
        for address in NODES:
            factory = partial(self._kind, NodeId(address))
            world.nodes[address].hosts["clock"].factory = factory
        return run


@pytest.mark.parametrize(("kind", "rule"), [(Frozen, "K1"), (Hasty, "K8")])
def test_a_clock_that_breaks_a_rule_is_found_without_any_fault(
    kind: type[NodeClock], rule: str
) -> None:
    outcome = simulate(SpoiledPart(kind), 1, profile="none")
    assert outcome.verdict == "violated"
    assert rule in {violation.invariant for violation in outcome.violations}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_honest_clock_is_ok_in_every_profile(profile: str) -> None:
    for seed in range(6):
        outcome = simulate(ClockPart(), seed, profile=profile)
        assert outcome.verdict == "ok", (seed, outcome.violations)


@pytest.mark.parametrize("plant", [FORGETS, HURRIES])
def test_a_planted_bug_needs_a_crash_to_show(plant: str) -> None:
    calm = [simulate(ClockPart(), seed, profile="none", plant=plant) for seed in range(5)]
    assert {outcome.verdict for outcome in calm} == {"ok"}


def test_a_client_that_sees_a_clock_again_says_so() -> None:
    """K9 is about what reaches the client, whatever the nodes believe to have sent."""
    now = Now(monotonic_ns=0, wall_ns=0)
    world = World(1, Faults())
    client = Client(world, "c1")
    told: set[str] = set()
    for _ in range(20):
        for effect in client.step(Fired(now, TimerName("next"))):
            if isinstance(effect, Send) and isinstance(effect.message, Tick):
                told.add(effect.to)
                before = len(world.violations)
                client.step(Received(now, effect.to, Ticked(effect.message.request, Clock(9, 9))))
                if len(world.violations) > before:
                    assert world.violations[-1].invariant == "K9"
                    return
    raise AssertionError(f"nothing was said about {sorted(told)}")


def test_rot_is_not_for_this_part() -> None:
    run = ClockPart().prepare(World(1, Faults()), None)
    assert not run.permits("rot", NODES[0])
    assert run.permits("crash", NODES[0])
