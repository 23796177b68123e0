"""What a storm brings along: nodes, a workload, checks, marks."""

from __future__ import annotations

from typing import Protocol

import msgspec

from motet.core.machine import Violation
from motet.ids import Address
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
        """How long the faults go on, at most; then all is mended."""

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
