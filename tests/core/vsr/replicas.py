"""Replicas in all walks of life, for tests that throw something at them."""

from __future__ import annotations

from functools import cache

from motet.core.machine import Now, Started
from motet.core.vsr.replica import Replica
from motet.ids import ReplicaIndex
from motet.testing.register import Register
from motet.testing.script import parse_command
from motet.testing.scripts.vsr import VsrStorm, small_config

CONFIG = small_config(3, 4, 1)
BUSY = ("cluster", "client c1", "puts c1 14")

LIVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "primary": ("r1", BUSY),
    "primary_with_prepares_in_flight": ("r1", (*BUSY, "lose prepare", "put c1 a 1 wait=off")),
    "backup": ("r0", BUSY),
    "backup_that_lags": ("r0", (*BUSY, "lose all to=r0", "puts c1 8", "heal")),
    "backup_that_votes": ("r0", (*BUSY, "crash r1", "crash r2", "run 1500")),
    "in_a_view_change": ("r0", (*BUSY, "lose do_view_change", "crash r1", "run 1300")),
    "primary_to_be": ("r2", (*BUSY, "lose do_view_change", "crash r1", "run 1300")),
    "unsure_of_its_head": (
        "r0",
        (*BUSY, "crash r0", "corrupt r0 prepare 15", "corrupt r0 header 15", "start r0"),
    ),
    "that_fetches_a_checkpoint": (
        "r0",
        (*BUSY, "isolate r0", "puts c1 30", "heal", "lose block", "run 3000"),
    ),
    "that_catches_up": (
        "r0",
        (*BUSY, "isolate r0", "puts c1 30", "heal", "lose prepare", "run 500"),
    ),
    "alone": ("r0", ("cluster replicas=1", "client c1", "puts c1 5")),
}
"""Which replica, and what has happened in its cluster."""


def after(*lines: str) -> VsrStorm:
    """A cluster with which all this has been done."""
    part = VsrStorm()
    for line in lines:
        part.run(parse_command(line, "test"))
    return part


@cache
def _lived(life: str) -> tuple[Replica, Now]:
    name, lines = LIVES[life]
    part = after(*lines)
    node = part.bench.node(name)
    machine = node.machine
    assert isinstance(machine, Replica)
    return machine, Now(part.bench.monotonic_ns, node.wall_ns)


def replica(life: str) -> tuple[Replica, Now]:
    """A replica of its own, and its time."""
    machine, now = _lived(life)
    return machine.clone(), now


def just_started() -> Replica:
    """It has asked for its files, and read nothing yet."""
    machine = Replica(CONFIG, ReplicaIndex(0), Register())
    machine.step(Started(Now(0, 0), nonce=1))
    return machine
