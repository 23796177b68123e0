"""A replica alone, killed at every boundary of its writes: what it had durable is there, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shardlog.world import SMALL, World, WorldNode

from motet.core.machine import Fired, Received, Write
from motet.core.shardlog.entry import EntryKind
from motet.core.shardlog.messages import BecomeLeaderRequest, FenceRequest
from motet.core.shardlog.shards import BEAT
from motet.ids import Address, Epoch, NodeId, Offset
from motet.testing.scripts.shardlog_bench import SHARD, AppendValue, ListMachine

OPERATOR = Address("op")


class Solo(World):
    """One node that leads itself."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed, nodes=1, config=SMALL)
        self.node: WorldNode = self.nodes[NodeId("n1")]
        self.epoch = 0
        self.start(self.node)
        self.lead()

    def lead(self) -> None:
        machine = self.node.machine
        assert machine is not None
        self.sync(self.node, everything=True)
        self.settle()
        self.epoch += 1
        life = machine.shards.incarnation
        fence = FenceRequest(SHARD, Epoch(self.epoch), life, self.epoch == 1)
        self.step(self.node, Received(self.now, OPERATOR, fence))
        self.settle()
        request = BecomeLeaderRequest(SHARD, Epoch(self.epoch), 1, ())
        self.step(self.node, Received(self.now, OPERATOR, request))
        self.settle()

    def settle(self) -> None:
        for _ in range(4):
            self.sync(self.node, everything=True)
        self.in_flight = []

    def append_value(self, value: bytes) -> None:
        self.step(self.node, Received(self.now, Address("c"), AppendValue(value)))

    def found(self) -> list[bytes]:
        replica = self.node.replica
        assert replica is not None
        assert isinstance(replica.machine, ListMachine)
        return [body for _, _, body in replica.machine.entries if body != b"#"]


def kill(world: Solo, keep: set[int], torn: tuple[int, int] | None = None) -> None:
    """Stop dead with exactly these of the pending changes, by their place."""
    node = world.node
    kept = [each.id for place, each in enumerate(node.disk.pending) if place in keep]
    cut = None
    if torn is not None and torn[0] not in keep:
        change = node.disk.pending[torn[0]]
        if isinstance(change, Write):
            cut = change.id, torn[1] % len(change.data)
    node.disk.crash(kept, cut)
    node.machine = None
    node.writes, node.withheld, node.answers, node.reads = {}, [], [], []
    world._seen.clear()
    world._floors.clear()


@settings(max_examples=60)
@given(st.data())
def test_after_a_crash_with_any_subset_what_was_applied_is_there(data: st.DataObject) -> None:
    world = Solo()
    durable: list[bytes] = []
    for _ in range(data.draw(st.integers(1, 3))):
        for number in range(data.draw(st.integers(0, 6))):
            world.append_value(b"%d" % number * data.draw(st.sampled_from((1, 60, 200))))
            if data.draw(st.booleans()):
                world.settle()
        durable = world.found()
        pending = len(world.node.disk.pending)
        keep = data.draw(st.sets(st.integers(0, pending))) if pending else set()
        torn = (data.draw(st.integers(0, pending - 1)), 50) if pending else None
        kill(world, keep, torn)
        world.start(world.node)
        world.lead()
        found = world.found()
        assert found[: len(durable)] == durable
        replica = world.node.replica
        assert replica is not None
        assert not replica.core.state.is_damaged, "a crash is no damage"
        assert replica.is_serving


@pytest.mark.parametrize("boundary", range(40))
def test_a_crash_at_each_write_boundary(boundary: int) -> None:
    """The first so many changes survive, of a run that rolls, snapshots and trims."""
    world = Solo()
    for number in range(12):
        world.append_value(b"%d" % number * 100)
    kill(world, set(range(boundary)))
    world.start(world.node)
    world.lead()
    found = world.found()
    assert found == [b"%d" % number * 100 for number in range(len(found))]
    for number in range(3):
        world.append_value(b"again %d" % number)
        world.settle()
        world.step(world.node, Fired(world.now, BEAT))
        world.settle()
    kill(world, set())
    world.start(world.node)
    world.lead()
    assert world.found() == [*found, b"again 0", b"again 1", b"again 2"]


def test_reading_agrees_with_a_list() -> None:
    world = Solo()
    replica = world.node.replica
    assert replica is not None
    core = replica.core
    core.config = msgspec.structs.replace(core.config, keep_bytes=None)
    values = [b"%d" % number * (number % 37 + 1) for number in range(60)]
    for value in values:
        world.append_value(value)
        world.settle()
    for after in (0, 1, 7, 30, 59, 61):
        for bytes_max in (1, 300, 5000):
            number, effects = replica.read(Offset(after), bytes_max)
            for effect in effects:
                world._perform(world.node, effect)
            machine = world.node.machine
            assert machine is not None
            machine.reads.append(number)
            done = replica.take_finished()
            while not done:
                assert world.node.reads
                read = world.node.reads.pop(0)
                content = world.node.disk.read(read.file, read.offset, read.size_bytes)
                for effect in machine.shards.on_read_back(read.id, content, world.now):
                    world._perform(world.node, effect)
                done = replica.take_finished()
            machine.reads.clear()
            bodies = [e.body for e in done[0].entries if e.kind == EntryKind.RECORDS]
            start = max(0, after - 1)  # entry 1 is the barrier
            assert bodies == values[start : start + len(bodies)]
            assert bool(done[0].entries) == (after < 61)
