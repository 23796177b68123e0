"""Tables in the storm, and a keeper whose files are replaced by an older copy of them (T1, T38).

Some time after the copy was made the keeper is that copy again: all sessions end, and the clients of before
are gone. Nobody has told that it was restored, so replicas that have executed more are read-only, and remove
nothing. Then a person draws a new incarnation: replicas go on with the log there is, put aside what is above
it, and other clients work with them.

KeptAside    no bytes of a part that was registered when the keeper was restored are removed, unless they were
             put aside, and stored again by somebody who asked for that
ReadOnly     before the incarnation is drawn no replica is active that has executed more than the log has

Nothing is dropped here: what a drop has taken is removed from disks, and the older copy has it still. Nor do
copies of requests of before come after the keeper was restored. An insert would take the bytes that were put
aside for its own, and remove them when it is refused; a publication names versions of ``host`` that count
anew then, and may be reached again by a replica that has let go of the part.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS, Message
from motet.core.mergetree.messages import InsertBlock, PublishParts
from motet.core.mergetree.state import Phase
from motet.core.metadata.definitions import DatabaseIdentity, encode_database_identity
from motet.core.metadata.messages import ANY_VERSION, Set, Written
from motet.core.metadata.paths import DATABASE
from motet.ids import Address, PartId
from motet.sim.metadata_tree import MetadataTree
from motet.sim.world import World
from motet.verify.plants import plants_of
from motet.verify.storms.tables import Habits, TablesRun
from motet.verify.storms.tables_checks import SavedTruth
from motet.verify.storms.tables_clients import FOREIGN
from motet.verify.storms.tables_store import StoredNode

RESTORED, DRAWN, BEHIND = "keeper_restored", "incarnation_drawn", "replica_ahead_of_its_keeper"
MARKS = (
    *(RESTORED, DRAWN, BEHIND, FOREIGN, "crash", "crash_all", "pause"),
    *("table_begins_anew", "table_read_only", "published", "quorum_failed"),
)


class RestoredTablesStorm:
    """``motet simulate restored-tables``."""

    name = "restored-tables"
    marks = MARKS
    plants = plants_of("restored-tables")
    storm_ms = 5_000

    def prepare(self, world: World, plant: str | None) -> RestoredRun:
        return RestoredRun(world, plant)


def is_of_before(message: Message) -> bool:
    """Whether it relies on what replicas had, or had told, before the keeper was restored."""
    return isinstance(message, InsertBlock | PublishParts)


class RestoredRun(TablesRun):
    """A run with two generations of clients, and an older copy of the keeper between them."""

    part = "restored-tables"
    habits = Habits(drops=(0.0,), changes=(0.0,), replaces=0.0, loses=False, spoils=False)

    def __init__(self, world: World, plant: str | None) -> None:
        super().__init__(world, plant)
        self.former, self.former_readers = [*self.writers, *self.readers], self.readers
        self.add_clients(second=True)
        for client in (*self.writers, *self.readers):
            client.is_muted = True
        self._copy: tuple[MetadataTree, SavedTruth] | None = None
        self._is_drawn = False
        #: what was stored on whose disk when the keeper was restored
        self._stored: dict[Address, list[PartId]] = {}
        dice = self._dice
        copied_ms = dice.between(600, 2_000)
        restored_ms = copied_ms + dice.between(50, 1_500)
        drawn_ms = restored_ms + dice.between(50, 600)
        world.at(copied_ms * NS_PER_MS, self._keep_copy)
        world.at(restored_ms * NS_PER_MS, self._restore)
        world.at(drawn_ms * NS_PER_MS, self._draw)

    def _keep_copy(self) -> None:
        self._copy = self.store.tree.clone(), self.truth.save()

    def _restore(self) -> None:
        assert self._copy is not None, "it was made before"
        tree, saved = self._copy
        for client in self.former:
            client.is_muted = True
        for new, old in zip(self.readers, self.former_readers, strict=True):
            new.remember(old)
        for node, folder in self.folders.items():
            known = [part for key in self.truth.shards for part in self.truth.registered(key, node)]
            self._stored[node] = [part for part in known if folder.is_whole(part)]
        self.truth.put_back(saved)
        self.store.restore(tree)
        if self._world.late is not None:
            self._world.late.forget(is_of_before)
        self.truth.look = tree.get
        self._world.mark(RESTORED)

    def _draw(self) -> None:
        """What the restore command does."""
        self._check_read_only()
        identity = encode_database_identity(DatabaseIdentity("0123456789abcdef"))
        if self.store.tree.get(DATABASE) is not None:
            written = self.store.write(Set(DATABASE, identity, ANY_VERSION))
            assert isinstance(written, Written), written
        self._is_drawn = True
        self._world.mark(DRAWN)
        for client in (*self.writers, *self.readers):
            client.is_muted = False

    def _check_read_only(self) -> None:
        for host in self.hosts.values():
            stored = host.machine
            assert isinstance(stored, StoredNode)
            for key, replica in stored.node.replicas.items():
                state = replica.core.state
                if state.history.next_number > self.truth.shard(key).next_number:
                    self._world.mark(BEHIND)
                    own = replica.core.own_paths
                    is_known = self.store.tree.get(own.is_active) is not None
                    if state.phase is Phase.ACTIVE and is_known:
                        what = f"{key[0]}/{key[1]} on {host.node.address} has executed another log"
                        self._world.violated("ReadOnly", what)

    def finished(self) -> bool:
        for node, parts in self._stored.items():
            folder = self.folders[node]
            kept = {**folder.detached, **folder.stored_again}
            gone = [part for part in parts if not folder.has_promised(part) and part not in kept]
            if gone:
                self._stored = {}
                self._world.violated("KeptAside", f"{' '.join(gone)} on {node}")
        return self._is_drawn and super().finished()
