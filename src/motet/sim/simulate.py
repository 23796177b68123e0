"""Run one seed of one part: a storm of faults, then calm, then the verdict.

In the storm the nemesis breaks what the profile allows while the part's clients work. Then everything
is mended, and the clients must get done: a system that is safe and never finishes is not correct.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS, Violation
from motet.errors import BadInput
from motet.limits import simulation_events_max
from motet.sim.dice import Dice
from motet.sim.faults import faults_for
from motet.sim.nemesis import Nemesis
from motet.sim.storm import Outcome, Run, Storm
from motet.sim.trace import Trace
from motet.sim.world import World

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
        what = f"clients are still waiting {CALM_MS} ms after the last fault was mended"
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
