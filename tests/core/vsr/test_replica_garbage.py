"""Whatever comes in from the network, a replica lives and keeps its invariants."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.vsr.garbage import CLUSTER, arrivals, checksums, huge
from tests.core.vsr.replicas import LIVES, just_started, replica

from motet.core.machine import (
    Event,
    Fired,
    Message,
    Now,
    Received,
    Write,
    Written,
)
from motet.core.vsr.messages import (
    Request,
    sealed_request,
)
from motet.core.vsr.replica import TIMERS, Replica
from motet.core.vsr.state import Status
from motet.ids import Address, TimerName

EXAMPLES = 60


@pytest.mark.parametrize("life", LIVES)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(arrivals() | st.sampled_from(sorted(TIMERS)), min_size=1, max_size=6))
def test_it_lives(life: str, steps: list[tuple[Address, Message] | str]) -> None:
    machine, now = replica(life)
    for step in steps:
        now = Now(now.monotonic_ns + 10_000_000, now.wall_ns + 10_000_000)
        event: Event
        if isinstance(step, str):
            event = Fired(now, TimerName(step))
        else:
            event = Received(now, *step)
        step_and_write(machine, event)


def step_and_write(machine: Replica, event: Event) -> None:
    """Step it, and let all its writes become durable."""
    waiting = [event]
    for _ in range(100):
        effects = machine.step(waiting.pop(0))
        assert machine.invariants() == []
        waiting += [Written(event.now, each.id) for each in effects if isinstance(each, Write)]
        if not waiting:
            break
    machine.fingerprint()


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(arrived=arrivals())
def test_it_lives_before_it_knows_its_past(arrived: tuple[Address, Message]) -> None:
    machine = just_started()
    machine.step(Received(Now(1, 1), *arrived))
    assert machine.core.state.status is Status.RECOVERING
    assert machine.invariants() == []


@settings(max_examples=200)
@given(
    message=st.builds(
        Request,
        cluster=st.just(CLUSTER),
        client=huge,
        view=huge,
        session=huge,
        request=huge,
        parent=checksums,
        release=huge,
        operation=huge,
        body=st.binary(max_size=2_500),
    ).map(sealed_request)
)
def test_it_lives_with_any_request(message: Request) -> None:
    for life in ("primary", "backup", "alone"):
        machine, now = replica(life)
        step_and_write(machine, Received(now, Address("stranger"), message))
