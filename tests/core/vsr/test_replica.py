"""A replica is a function of its events: the same again gives the same, and a copy is a copy."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.vsr.replicas import CONFIG, LIVES, replica

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import Effect, Event, Received, Send
from motet.core.vsr.header import NO_CHECKSUM, sealed
from motet.core.vsr.messages import PingClient, Prepare
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.ids import Address, ClientId, Op, ReplicaIndex
from motet.testing.bench_node import BenchNode
from motet.testing.register import Register
from motet.testing.script import parse_command
from motet.testing.scripts.vsr import VsrStorm

STORY = (
    "cluster",
    "client c1 c2",
    "puts c1 9",
    "lose prepare from=r1 to=r2",
    "puts c2 4",
    "crash r1",
    "run 2500",
    "heal",
    "puts c1 14",
    "start r1",
    "corrupt r0 prepare 26",
    "restart r0",
    "run 3000",
    "puts c2 3",
    "run 1000",
)


class Recorded(BenchNode):
    """A node that writes down what happened to it, incarnation by incarnation."""

    def __init__(self, node: BenchNode) -> None:
        super().__init__(node.name, self.begin, node.wall_ns)
        self.disk = node.disk
        self.made = node.make
        self.lives: list[list[tuple[Event, list[Effect], bytes]]] = []

    def begin(self) -> Replica:
        self.lives.append([])
        machine = self.made()
        assert isinstance(machine, Replica)
        return machine

    def step(self, event: Event) -> list[Effect]:
        machine = self.running()
        effects = machine.step(event)
        assert machine.invariants() == []
        self.lives[-1].append((event, effects, machine.fingerprint()))
        return effects


@pytest.fixture(scope="module")
def recorded() -> dict[int, Recorded]:
    """What happened to each replica in the story."""
    part = VsrStorm()
    part.run(parse_command("cluster start=off", "test"))
    for name in CONFIG.replicas:
        part.bench.nodes[name] = Recorded(part.bench.nodes[name])
    part.run(parse_command("start", "test"))
    part.run(parse_command("run 1000", "test"))
    for line in STORY[1:]:
        part.run(parse_command(line, "test"))
    nodes = [part.bench.nodes[name] for name in CONFIG.replicas]
    return {index: node for index, node in enumerate(nodes) if isinstance(node, Recorded)}


def test_the_story_has_something_of_everything(recorded: dict[int, Recorded]) -> None:
    notes = {
        str(getattr(effect, "what", ""))
        for node in recorded.values()
        for life in node.lives
        for _, effects, _ in life
        for effect in effects
    }
    assert {"vsr_checkpoint_durable", "vsr_view_started", "vsr_prepare_repaired"} <= notes
    assert [len(node.lives) for node in recorded.values()] == [2, 2, 1]


def test_the_same_events_give_the_same_effects_and_states(recorded: dict[int, Recorded]) -> None:
    for index, node in recorded.items():
        for life in node.lives:
            twin = Replica(
                CONFIG,
                ReplicaIndex(index),
                Register(),
            )
            for event, effects, state in life:
                assert twin.step(event) == effects
                assert twin.fingerprint() == state


def test_a_copy_goes_on_by_itself(recorded: dict[int, Recorded]) -> None:
    """Every now and then copy the replica; stepping the copy leaves the original as it was."""
    life = recorded[2].lives[0]
    twin = Replica(CONFIG, ReplicaIndex(2), Register())
    for number, (event, _, state) in enumerate(life):
        if number % 97 == 0:
            before = twin.fingerprint()
            copy = twin.clone()
            for later, _, _ in life[number : number + 30]:
                copy.step(later)
            assert twin.fingerprint() == before
        twin.step(event)
        assert twin.fingerprint() == state


@pytest.mark.parametrize("life", LIVES)
def test_its_state_is_plain(life: str) -> None:
    machine, _ = replica(life)
    copied = clone_plain(machine.core.state)
    assert fingerprint(copied) == fingerprint(machine.core.state)


@pytest.mark.parametrize("life", LIVES)
def test_it_is_well(life: str) -> None:
    machine, _ = replica(life)
    assert machine.invariants() == []


def test_nothing_wakes_a_replica_that_refused() -> None:
    machine, now = replica("alone")
    machine.core.state.status = Status.REFUSED
    before = machine.fingerprint()
    ping = PingClient(CONFIG.cluster, ClientId(1))
    assert machine.step(Received(now, Address("c1"), ping)) == []
    assert machine.fingerprint() == before


def test_what_a_backup_has_no_room_for_is_passed_on() -> None:
    machine, now = replica("backup")
    core = machine.core
    op = Op(core.op_prepare_max + 1)
    header = sealed(msgspec.structs.replace(core.head, op=op, checksum=NO_CHECKSUM))
    body = core.state.journal.cache[core.state.op].body
    view, primary = core.state.view, core.primary
    prepare = Prepare(CONFIG.cluster, primary, view, header, body, (ReplicaIndex(2),))
    head_before = core.state.op
    effects = machine.step(Received(now, CONFIG.replicas[primary], prepare))
    passed = [each for each in effects if isinstance(each, Send)]
    assert [(each.to, each.message) for each in passed] == [
        (CONFIG.replicas[2], msgspec.structs.replace(prepare, replica=core.own, route=()))
    ]
    assert core.state.op == head_before
    assert core.state.counts["prepare_beyond_log"] == 1
