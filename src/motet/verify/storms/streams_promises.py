"""What a follower has acknowledged, it keeps.

AcknowledgedStays  an entry that a node has acknowledged to the leader of an epoch is in its log as long as it
                   is in that epoch, through restarts, and whatever arrives late or twice

A loss shows only when the leader goes as well; this shows when the follower forgets. Nothing is said of a
node whose disk was lost or damaged, until it is a member again: what it acknowledged before does not count.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.machine import Effect, Event, Note, Received, Send
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import AddEntryResponse, ShardMessage
from motet.core.streams.node import DataNode
from motet.ids import Address, Epoch, NodeId, ShardName
from motet.sim.host import Host
from motet.sim.world import World

Place = tuple[Address, ShardName]


class Promises:
    """Watches all data nodes; ``is_struck`` says whether a disk may be damaged where a shard lies."""

    def __init__(self, world: World, is_struck: Callable[[NodeId, ShardName], bool]) -> None:
        self._world = world
        self._is_struck = is_struck
        #: the newest entry of each log that was acknowledged, and in which epoch
        self._said: dict[Place, tuple[Epoch, EntryId]] = {}

    def saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        """A machine has taken a step."""
        machine = host.machine
        if not isinstance(machine, DataNode):
            return
        address = host.node.address
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, AddEntryResponse):
                self._acknowledged(address, machine, effect.message)
            elif isinstance(effect, Note) and effect.what in ("shard_deleted", "shard_damaged"):
                shard = ShardName(effect.detail.partition(" ")[0])
                self._said.pop((address, shard), None)
        if isinstance(event, Received) and isinstance(event.message, ShardMessage):
            self._check(address, machine, event.message.shard)

    def _acknowledged(self, address: Address, machine: DataNode, answer: AddEntryResponse) -> None:
        replica = machine.shards.replica(answer.shard)
        if replica is not None and replica.is_member:
            said, place = (answer.epoch, answer.entry_id), (address, answer.shard)
            self._said[place] = max(said, self._said.get(place, said))

    def wiped(self, node: NodeId) -> None:
        """It has lost its disk."""
        gone = Address(node)
        self._said = {place: said for place, said in self._said.items() if place[0] != gone}

    def _check(self, address: Address, machine: DataNode, shard: ShardName) -> None:
        said, replica = self._said.get((address, shard)), machine.shards.replica(shard)
        if said is None or replica is None or self._is_struck(NodeId(address), shard):
            return
        state, (epoch, entry) = replica.core.state, said
        runs = state.log.runs
        is_here = entry.offset <= runs.base.offset or runs.has(entry)
        if state.recovery is None and state.epoch == epoch and state.is_member and not is_here:
            what = f"{address} {shard}: acknowledged {entry} in epoch {epoch}, ends at {runs.head}"
            self._world.violated("AcknowledgedStays", what)
