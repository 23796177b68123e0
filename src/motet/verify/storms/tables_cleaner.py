"""Who marks replicas as lost in the storm, as whoever trims logs does: by a multi that raises their ``host``.

Only replicas that are not active are marked, one of a shard at most, and only when every part that is wanted,
or may be, is whole on another one. What a lost replica has promised as a holder, or has under way, is void
with its ``host``. It stays lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from motet.core.machine import NS_PER_MS
from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.paths import ShardPaths
from motet.core.metadata.messages import Found, Set, Written
from motet.ids import Address, NodeId
from motet.sim.dice import Dice
from motet.sim.world import World
from motet.verify.storms.tables_checks import Truth
from motet.verify.storms.tables_parts import Folder
from motet.verify.storms.tables_store import TableStore

LOST = "replica_lost"


class Cleaner:
    """Looks at all replicas now and then."""

    def __init__(
        self,
        world: World,
        dice: Dice,
        store: TableStore,
        truth: Truth,
        folders: Mapping[Address, Folder],
    ) -> None:
        self._world = world
        self._dice = dice
        self._store = store
        self._truth = truth
        self._folders = folders

    def begin(self, interval_ms: int) -> None:
        """From now on."""
        self._world.at(
            self._dice.between(1, 2 * interval_ms) * NS_PER_MS, self._look, (interval_ms,)
        )

    def _look(self, interval_ms: int) -> None:
        if self._world.fabric.healed:
            return
        self.begin(interval_ms)
        for key in list(self._truth.shards):
            is_lost = any(each == key for each, _ in self._truth.lost)
            node = self._dice.pick(list(self._folders))
            if key[0] not in self._truth.dropped and not is_lost:
                self._mark(key, node)

    def _mark(self, key: ReplicaKey, node: Address) -> None:
        own = ShardPaths(*key).replica(NodeId(node))
        host, is_active, is_lost = self._store.look(own.host, own.is_active, own.is_lost)
        if not isinstance(host, Found) or not isinstance(is_lost, Found):
            return
        if isinstance(is_active, Found) or not self._is_spare(key, node):
            return
        written = self._store.write(
            Set(host.path, host.data, host.stat.version),
            Set(is_lost.path, b"1", is_lost.stat.version),
        )
        assert isinstance(written, Written), written
        self._world.mark(LOST)
        self._world.record(node, "!", f"lost {key[0]}/{key[1]}")

    def _is_spare(self, key: ReplicaKey, node: Address) -> bool:
        """Whether nothing is on this replica alone."""
        for block in self._truth.shard(key).blocks:
            part = block.header.id
            others = [
                other
                for other, folder in self._folders.items()
                if other != node
                and folder.is_whole(part)
                and part in self._truth.registered(key, other)
            ]
            if not block.has_failed and not block.dropped and not others:
                return False
        return True
