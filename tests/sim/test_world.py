"""The rules E1 to E8 of the machine vocabulary, as the simulated world keeps them."""

from __future__ import annotations

from collections.abc import Callable

from motet.core.machine import (
    CancelTimer,
    Effect,
    Event,
    Fired,
    Message,
    Note,
    Read,
    ReadBack,
    Received,
    Replace,
    Send,
    SetTimer,
    Started,
    Violation,
    Write,
    WriteFailed,
    Written,
)
from motet.ids import Address, FileName, ReadId, TimerName, WriteId
from motet.sim.faults import DiskFaults, Faults, NetworkFaults
from motet.sim.host import Host
from motet.sim.world import World

FILE = FileName("file")
T = TimerName("t")


class Hello(Message, frozen=True, tag="hello"):
    """Any message."""

    number: int


class Script:
    """Answers its nth kind of event with prepared effects, and remembers what it saw."""

    def __init__(self, answer: Callable[[Event], list[Effect]]) -> None:
        self._answer = answer
        self.seen: list[Event] = []

    def step(self, event: Event) -> list[Effect]:
        self.seen.append(event)
        return self._answer(event)

    def invariants(self) -> list[Violation]:
        return []


def on_start(*effects: Effect) -> Callable[[Event], list[Effect]]:
    return lambda event: list(effects) if isinstance(event, Started) else []


def put(world: World, name: str, answer: Callable[[Event], list[Effect]]) -> Host:
    host = world.host(world.add_node(name), "m", lambda: Script(answer))
    world.start(host.node)
    return host


def seen(host: Host) -> list[Event]:
    machine = host.machine
    assert isinstance(machine, Script)
    return machine.seen


def kinds(host: Host) -> list[type]:
    return [type(event) for event in seen(host)]


SLOW_DISK = Faults(disk=DiskFaults(latency_us_min=5_000, latency_us_max=5_000, lost=1.0))


def test_a_send_that_names_a_write_leaves_when_the_write_is_durable() -> None:
    world = World(1, SLOW_DISK)
    sender_effects = on_start(
        Send(Address("b"), Hello(2), after=None),
        Write(WriteId(0), FILE, 0, b"x"),
        Send(Address("b"), Hello(1), after=WriteId(0)),
    )
    receiver = put(world, "b", lambda _event: [])
    put(world, "a", sender_effects)
    world.run(4)
    assert [e.message for e in seen(receiver) if isinstance(e, Received)] == [Hello(2)]
    world.run(7)
    assert [e.message for e in seen(receiver) if isinstance(e, Received)] == [Hello(2), Hello(1)]


def test_a_crash_before_that_loses_the_send_with_the_write() -> None:
    world = World(1, SLOW_DISK)
    receiver = put(world, "b", lambda _event: [])
    sender = put(
        world,
        "a",
        on_start(Write(WriteId(0), FILE, 0, b"x"), Send(Address("b"), Hello(1), WriteId(0))),
    )
    world.run(3)
    world.crash(sender.node)
    world.run(50)
    assert Received not in kinds(receiver)
    assert sender.disk.size(FILE) is None


def test_a_send_after_a_write_that_is_durable_leaves_at_once() -> None:
    def answer(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [Write(WriteId(0), FILE, 0, b"x")]
        return (
            [Send(Address("b"), Hello(1), after=WriteId(0))] if isinstance(event, Written) else []
        )

    world = World(1, Faults())
    receiver = put(world, "b", lambda _event: [])
    put(world, "a", answer)
    world.run(10)
    assert kinds(receiver).count(Received) == 1


def test_writes_to_one_file_are_confirmed_in_order() -> None:
    world = World(1, Faults(disk=DiskFaults(latency_us_min=1, latency_us_max=5_000)))
    writes = [Write(WriteId(n), FILE, n, b"x") for n in range(50)]
    host = put(world, "a", on_start(*writes))
    world.run(100)
    assert [e.write for e in seen(host) if isinstance(e, Written)] == list(range(50))


def test_a_full_disk_fails_the_write_and_drops_what_waited_for_it() -> None:
    world = World(1, Faults())
    receiver = put(world, "b", lambda _event: [])
    host = put(
        world,
        "a",
        on_start(Replace(WriteId(0), FILE, b"x"), Send(Address("b"), Hello(1), WriteId(0))),
    )
    host.disk.full = True
    world.run(10)
    assert WriteFailed in kinds(host)
    assert Written not in kinds(host)
    assert Received not in kinds(receiver)


def test_waiting_for_a_write_never_begun_is_found() -> None:
    world = World(1, Faults())
    put(world, "a", on_start(Send(Address("a"), Hello(1), after=WriteId(3))))
    world.run(10)
    assert [violation.invariant for violation in world.violations] == ["assertion"]


def test_a_timer_set_again_moves_and_a_cancelled_one_is_silent() -> None:
    world = World(1, Faults())
    other = TimerName("other")
    moved = put(
        world,
        "a",
        on_start(SetTimer(T, 5), SetTimer(T, 20), SetTimer(other, 5), CancelTimer(other)),
    )
    world.run(10)
    assert Fired not in kinds(moved)
    world.run(30)
    assert [e.timer for e in seen(moved) if isinstance(e, Fired)] == [T]


def test_nothing_of_an_incarnation_outlives_its_crash() -> None:
    world = World(1, SLOW_DISK)
    effects = (SetTimer(T, 5), Write(WriteId(0), FILE, 0, b"x"), Read(ReadId(0), FILE))
    host = put(world, "a", on_start(*effects))
    world.run(2)
    world.crash(host.node)
    world.run(3)
    host.factory = lambda: Script(lambda _event: [])
    world.start(host.node)
    world.run(100)
    assert kinds(host) == [Started]


def test_a_paused_node_does_nothing_and_then_goes_on() -> None:
    world = World(1, Faults())
    host = put(world, "a", on_start(SetTimer(T, 5)))
    world.run(1)
    host.node.paused_until_ns = 50_000_000
    world.run(40)
    assert Fired not in kinds(host)
    world.run(60)
    (fired,) = (event for event in seen(host) if isinstance(event, Fired))
    assert fired.now.monotonic_ns == 50_000_000


def test_a_read_sees_the_writes_before_it() -> None:
    world = World(1, Faults())
    host = put(world, "a", on_start(Write(WriteId(0), FILE, 0, b"abc"), Read(ReadId(0), FILE, 1)))
    world.run(10)
    assert [e.data for e in seen(host) if isinstance(e, ReadBack)] == [b"bc"]


def test_notes_are_counted_as_marks() -> None:
    world = World(1, Faults())
    put(world, "a", on_start(Note("here"), Note("here"), Note("there")))
    world.run(1)
    assert world.marks == {"here": 2, "there": 1}


def test_an_exception_in_a_step_is_a_violation_not_a_crash_of_the_simulator() -> None:
    def explode(event: Event) -> list[Effect]:
        raise ZeroDivisionError("a bug")

    world = World(1, Faults())
    put(world, "a", explode)
    assert not world.run(10)
    (violation,) = world.violations
    assert violation.invariant == "ZeroDivisionError"
    assert "a bug" in violation.what


def test_a_message_to_nobody_is_lost() -> None:
    world = World(1, Faults(network=NetworkFaults()))
    put(world, "a", on_start(Send(Address("nobody"), Hello(1))))
    assert world.run(10)
    assert world.violations == []
