"""A log is trimmed while somebody reads or fetches it: each of these was once a bug that a storm found."""

from __future__ import annotations

from tests.core.shardlog.test_recovery import Solo

from motet.core.shardlog.context import Core
from motet.core.shardlog.cursors import Cursor, CursorState
from motet.core.shardlog.leader import push_read
from motet.core.shardlog.messages import AddEntryRequest
from motet.core.shardlog.reading import finish
from motet.core.shardlog.snapshot import release_snapshot, take_snapshot
from motet.core.shardlog.state import Purpose, Reading
from motet.errors.shards import EntriesGone
from motet.ids import Address, Epoch, NodeId, Offset


def trimmed() -> Core:
    """A leader of a log whose oldest entries are gone."""
    world = Solo()
    for number in range(60):
        world.append_value(b"%d" % number * 40)
        world.settle()
        world.beat()
    replica = world.node.replica
    assert replica is not None
    assert replica.core.is_leader
    assert replica.core.state.log.base.offset > 1
    return replica.core


def cursor(core: Core, name: str) -> Cursor:
    """Another follower of it, from the beginning on."""
    node = NodeId(name)
    made = core.state.cursors[node] = Cursor(node, CursorState.ATTACHED, Epoch(1))
    return made


def test_a_read_whose_entries_are_gone_is_told_so_and_not_that_it_is_at_the_end() -> None:
    core = trimmed()
    finish(core, Reading(Purpose.CLIENT, Offset(0), Offset(1), 1_000, number=1))
    finish(core, Reading(Purpose.CLIENT, Offset(1), Offset(1), 1_000, number=2))
    gone, at_the_end = core.state.finished[-2:]
    assert gone.error is not None
    assert gone.error[0] == EntriesGone.code
    assert at_the_end.error is None


def test_entries_that_are_trimmed_while_they_are_read_for_a_follower_are_not_pushed() -> None:
    core = trimmed()
    follower = cursor(core, "n2")
    read = Reading(Purpose.PUSH, Offset(0), Offset(1), 1_000, node=Address("n2"))
    read.epoch, read.entries = core.state.epoch, core.state.log.tail[:1]
    before = len(core.desk.effects)
    push_read(core, read)
    sent = [getattr(each, "message", None) for each in core.desk.effects[before:]]
    assert not [each for each in sent if isinstance(each, AddEntryRequest) and each.entries]
    assert not follower.is_reading


def test_a_snapshot_stays_as_long_as_another_follower_fetches_it() -> None:
    core = trimmed()
    snapshot = take_snapshot(core)
    first, second = cursor(core, "n2"), cursor(core, "n3")
    first.snapshot = second.snapshot = snapshot.number
    release_snapshot(core, first)
    assert [first.snapshot, second.snapshot] == [None, snapshot.number]
    assert snapshot.number in core.state.given
    release_snapshot(core, second)
    assert snapshot.number not in core.state.given
