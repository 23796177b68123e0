"""A disk that takes no more: nothing is promised, nothing is forgotten, and it goes on when there is room."""

from __future__ import annotations

import msgspec
from tests.core.vsr.replicas import after, replica

from motet.core.machine import (
    Effect,
    Fired,
    Now,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    SetTimer,
    Started,
    Write,
    WriteFailed,
    Written,
)
from motet.core.vsr.checkpointing import DISK
from motet.core.vsr.context import GRID, SUPERBLOCK, WAL
from motet.core.vsr.grid import block_offset
from motet.core.vsr.messages import DoViewChange, Prepare, PrepareOk, StartViewChange
from motet.core.vsr.replica import Replica
from motet.core.vsr.scrub import SCRUB
from motet.core.vsr.state import Status
from motet.ids import Address, ReplicaIndex
from motet.testing.register import Register
from motet.testing.script import parse_command
from motet.testing.scripts.vsr import VsrStorm


def writes(effects: list[Effect], file: str) -> list[Write]:
    return [each for each in effects if isinstance(each, Write) and each.file == file]


def sent(effects: list[Effect], *kinds: type) -> list[object]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kinds)]


def leave_view(machine: Replica, now: Now) -> list[Effect]:
    """Two others want to leave the view: that makes a superblock due."""
    effects: list[Effect] = []
    for index, name in ((1, "r1"), (2, "r2")):
        vote = StartViewChange(
            machine.core.config.cluster, ReplicaIndex(index), machine.core.state.view
        )
        effects += machine.step(Received(now, Address(name), vote))
    return effects


def test_a_prepare_that_found_no_room_is_not_acknowledged_and_is_written_again() -> None:
    part = after("cluster", "client c1", "puts c1 3", "lose prepare to=r0", "put c1 a 1", "heal")
    node = part.bench.node("r0")
    machine = node.machine
    assert isinstance(machine, Replica)
    now = Now(part.bench.monotonic_ns, node.wall_ns)
    primary = part.bench.node("r1").machine
    assert isinstance(primary, Replica)
    newest = primary.core.state.journal.cache[primary.core.state.op]
    prepare = Prepare(
        machine.core.config.cluster,
        ReplicaIndex(1),
        machine.core.state.view,
        newest.header,
        newest.body,
    )
    [write] = writes(machine.step(Received(now, Address("r1"), prepare)), WAL)[-1:]
    failed = machine.step(WriteFailed(now, write.id, "full"))
    assert SetTimer(DISK, 500) in failed
    assert not sent(failed, PrepareOk)
    [again] = writes(machine.step(Fired(now, DISK)), WAL)[-1:]
    assert (again.offset, again.data) == (write.offset, write.data)
    assert sent(machine.step(Written(now, again.id)), PrepareOk)


def test_a_superblock_that_found_no_room_is_written_again_as_it_was() -> None:
    machine, now = replica("backup")
    first, second = writes(leave_view(machine, now), SUPERBLOCK)
    assert not sent(machine.step(WriteFailed(now, first.id, "full")), DoViewChange)
    # The other copy of its half is durable; that is not enough to go on with the next half.
    assert not writes(machine.step(Written(now, second.id)), SUPERBLOCK)
    again = writes(machine.step(Fired(now, DISK)), SUPERBLOCK)
    assert [each.data for each in again] == [first.data, second.data]
    effects: list[Effect] = []
    for write in again:
        effects = machine.step(Written(now, write.id))
    rest = writes(effects, SUPERBLOCK)
    assert [each.data for each in rest] == [first.data] * 2
    for write in rest:
        effects = machine.step(Written(now, write.id))
    assert sent(effects, DoViewChange)


def test_the_scrubber_comes_by_every_block_of_the_checkpoint() -> None:
    part = after("cluster", "client c1", "puts c1 30", "run 300")
    node = part.bench.node("r0")
    machine = node.machine
    assert isinstance(machine, Replica)
    now = Now(part.bench.monotonic_ns, node.wall_ns)
    core = machine.core
    places = {block_offset(ref.index, core.config.block_bytes) for ref in core.state.table.refs()}
    assert len(places) > 5
    seen: set[int] = set()
    for _ in range(len(places) ** 2):
        effects = machine.step(Fired(now, SCRUB))
        seen |= {each.offset for each in effects if isinstance(each, Read) and each.file == GRID}
    assert seen == places


def with_blocks(machine: Replica, blocks_max: int) -> Replica:
    """The same replica with a smaller grid."""
    machine.core.config = msgspec.structs.replace(machine.core.config, blocks_max=blocks_max)
    return machine


def test_a_primary_takes_nothing_new_when_the_next_checkpoint_might_not_find_its_blocks() -> None:
    part = after("cluster", "client c1", "puts c1 14")
    primary = part.bench.node("r1").machine
    assert isinstance(primary, Replica)
    core = primary.core
    blocks_per_op = 2 + 2 * core.config.body_bytes_max // core.config.block_bytes
    allocator = core.state.allocator
    ops = core.config.ops_beyond_checkpoint
    needed = 2 * (allocator.end - len(allocator.free)) + ops * blocks_per_op
    with_blocks(primary, needed)
    part.run(parse_command("put c1 a 1", "test"))
    assert core.state.op == 16
    with_blocks(primary, needed - 1)
    part.run(parse_command("put c1 a 2 wait=off", "test"))
    part.run(parse_command("run 1000", "test"))
    assert core.state.op == 16
    assert core.state.counts["request_grid_full"] > 0
    assert core.is_primary, "it leads on, and what is there can be read"
    with_blocks(primary, needed + 100)
    part.run(parse_command("run 3000", "test"))
    assert core.state.op == 17, "the client has not given up"


def test_a_replica_writes_no_block_beyond_its_grid() -> None:
    part = after("cluster", "client c1", "puts c1 9")
    node = part.bench.node("r0")
    machine = node.machine
    assert isinstance(machine, Replica)
    with_blocks(machine, 2)
    part.run(parse_command("puts c1 4", "test"))
    assert machine.core.state.status is Status.REFUSED
    assert machine.core.state.refusal == "the state needs more than 2 blocks"
    assert GRID not in node.disk.durable


def begun_again(part: VsrStorm, bad_block: int | None = None) -> tuple[Replica, list[Read]]:
    """The only replica with the files it has, and what it has read of them; reads of the bad block fail."""
    node = part.bench.node("r0")
    assert isinstance(node.machine, Replica)
    core = node.machine.core
    machine = Replica(core.config, core.own, Register())
    now, reads = Now(part.bench.monotonic_ns, node.wall_ns), list[Read]()
    effects = machine.step(Started(now, nonce=1))
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Write):
            effects += machine.step(Written(now, effect.id))
        elif isinstance(effect, Read):
            reads.append(effect)
            data = node.disk.durable[effect.file][effect.offset :]
            data = data if effect.size_bytes is None else data[: effect.size_bytes]
            places = range(effect.offset, effect.offset + len(data))
            bad = -1 if bad_block is None else block_offset(bad_block, core.config.block_bytes)
            is_bad = effect.file == GRID and bad in places
            event = ReadFailed(now, effect.id, "bad") if is_bad else None
            effects += machine.step(event or ReadBack(now, effect.id, bytes(data)))
    return machine, reads


def test_a_checkpoint_is_read_in_few_reads() -> None:
    part = after("cluster replicas=1", "client c1", "puts c1 30", "run 300")
    machine, reads = begun_again(part)
    before = part.bench.node("r0").machine
    assert isinstance(before, Replica)
    assert machine.core.state.status is Status.NORMAL
    assert machine.core.machine.fingerprint() == before.core.machine.fingerprint()
    assert len(list(machine.core.state.table.refs())) > 6
    assert sum(read.file == GRID for read in reads) == 3, "the root, the chunks, the pages"


def test_of_blocks_that_are_read_together_one_can_be_bad() -> None:
    part = after("cluster replicas=1", "client c1", "puts c1 30", "run 300")
    machine, _ = begun_again(part)
    bad = max(ref.index for ref in machine.core.state.table.refs_of(0))
    machine, reads = begun_again(part, bad)
    assert machine.core.state.status is Status.REFUSED
    assert machine.core.state.refusal.startswith(f"block {bad} of the checkpoint is damaged")
    assert reads[-1].size_bytes == machine.core.config.block_bytes, "it was read alone in the end"
