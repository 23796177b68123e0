"""What a storm brings along: nodes, a workload, checks, marks.

Run one seed of one part: a storm of faults, then calm, then the verdict.

In the storm the nemesis breaks what the profile allows while the part's clients work. Then everything
is healed, and the clients must get done: a system that is safe and never finishes is not correct.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from motet.core.machine import NS_PER_MS, Violation
from motet.errors import BadInput
from motet.ids import Address
from motet.limits import simulation_events_max
from motet.sim.dice import Dice
from motet.sim.faults import faults_for
from motet.sim.nemesis import Nemesis
from motet.sim.trace import Trace
from motet.sim.world import World


class Run(Protocol):
    """One seed's experiment in a world."""

    def finished(self) -> bool:
        """Has every client got everything it wanted? Asked after each event, so it must be cheap."""

    def check(self) -> list[Violation]:
        """The verdict of the histories, when all is over."""

    def permits(self, fault: str, _node: Address, /) -> bool:
        """Does the storm claim to survive this fault here and now?"""


class Storm(Protocol):
    """One part of the system in the simulator, under faults."""

    @property
    def name(self) -> str:
        """As in ``motet simulate NAME``."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Coverage marks: notes and faults that a range of seeds must have seen to mean anything."""

    @property
    def plants(self) -> tuple[str, ...]:
        """Bugs that can be planted, to see that they are found."""

    @property
    def storm_ms(self) -> int:
        """How long the faults go on, at most; then all is healed."""

    def prepare(self, world: World, plant: str | None) -> Run:
        """Put nodes and clients into the world; nothing is started yet."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one seed."""

    part: str
    seed: int
    profile: str
    plant: str | None
    #: ok, violated, or unfinished (the budget of events ran out: nothing is known)
    verdict: str
    violations: list[Violation]
    events: int
    virtual_ms: int
    marks: dict[str, int]
    trace_lines: int
    trace_digest: str
    #: the newest lines of the trace
    tail: list[str] = []

    def replay_command(self) -> str:
        """The one line that shows this run again."""
        words = ["motet", "simulate", self.part, "--seed", str(self.seed)]
        words += ["--profile", self.profile]
        if self.plant is not None:
            words += ["--plant", self.plant]
        return " ".join([*words, "--trace"])


CALM_MS = 60_000
LIVENESS = "liveness"


def simulate(
    part: Storm,
    seed: int,
    *,
    profile: str = "swarm",
    plant: str | None = None,
    trace: Trace | None = None,
) -> Outcome:
    """Run this seed and say what came of it; the same arguments give the same outcome."""
    if plant is not None and plant not in part.plants:
        known = ", ".join(part.plants) or "none"
        raise BadInput(f"{part.name} has no planted bug {plant!r}", hint=f"known: {known}")
    faults = faults_for(profile, Dice(seed, "faults"))
    world = World(seed, faults, trace)
    run = part.prepare(world, plant)
    nemesis = Nemesis(world, run.permits)
    for node in world.nodes.values():
        world.start(node)
    nemesis.unleash()
    finished = world.run(part.storm_ms, run.finished)
    if not finished and not world.violations:
        nemesis.stop()
        finished = world.run(part.storm_ms + CALM_MS, run.finished)
    return _outcome(part, world, run, profile, plant, finished=finished)


def _outcome(
    part: Storm, world: World, run: Run, profile: str, plant: str | None, *, finished: bool
) -> Outcome:
    violations = list(world.violations)
    exhausted = world.events >= simulation_events_max
    if not violations:
        violations.extend(run.check())
    if not violations and not finished and not exhausted:
        what = f"clients are still waiting {CALM_MS} ms after the last fault was healed"
        violations.append(Violation(LIVENESS, what))
    verdict = "violated" if violations else "unfinished" if exhausted else "ok"
    return Outcome(
        part=part.name,
        seed=world.seed,
        profile=profile,
        plant=plant,
        verdict=verdict,
        violations=violations,
        events=world.events,
        virtual_ms=world.virtual.elapsed_ns // NS_PER_MS,
        marks=dict(sorted(world.marks.items())),
        trace_lines=world.trace.count if world.trace is not None else 0,
        trace_digest=world.trace.digest() if world.trace is not None else "",
        tail=world.trace.lines if world.trace is not None else [],
    )
