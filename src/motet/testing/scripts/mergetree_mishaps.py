"""Commands of golden scripts about what happens to a table: to its keeper, bytes and replicas."""

from __future__ import annotations

from motet.core.mergetree.messages import PartBroken
from motet.core.mergetree.paths import layout
from motet.core.metadata.definitions import DatabaseIdentity, encode_database_identity
from motet.core.metadata.messages import METADATA
from motet.core.metadata.paths import DATABASE
from motet.errors import BadScenario
from motet.ids import NodeId, PartId
from motet.testing.part import verb
from motet.testing.scripts.mergetree_bench import WatchedKeeper
from motet.testing.scripts.mergetree_client import PATHS, TABLE, MergeTreeClient


class MishapVerbs(MergeTreeClient):
    """Above the part; it has replicas, and starts and ends their sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.copy: WatchedKeeper | None = None

    def _add(self, name: str, own: NodeId) -> None:
        raise NotImplementedError

    def session(self, node: str) -> list[str]:
        raise NotImplementedError

    def expire(self, node: str, *, told: bool = True) -> list[str]:
        raise NotImplementedError

    def damage(self, node: str, part: str) -> list[str]:
        raise NotImplementedError

    @verb
    def add_replica(self, node: str) -> list[str]:
        """The shard gets another replica, which starts; the others are not told."""
        keeper = self.keeper()
        there = {path for path, _ in layout(TABLE, 1, ())}
        for path, data in layout(TABLE, 1, (NodeId(node),)):
            if path not in there:
                keeper.put(path, data)
        keeper.put(PATHS.replicas, b"")
        self._add(node, NodeId(node))
        return self.start(node)

    @verb
    def backup(self) -> list[str]:
        """Copy the keeper's files."""
        self.copy = self.keeper().clone()
        return []

    @verb
    def restore(self, *, incarnation: str = "") -> list[str]:
        """Put the copy back; all sessions end. Without an incarnation nobody tells that it is a copy."""
        if self.copy is None:
            raise BadScenario("there is no backup")
        lines: list[str] = []
        running = [node for node in self.bench.folders if self.bench.node(str(node)).machine]
        for node in running:
            lines += self.expire(str(node))
        keeper = self.copy.clone()
        for session in list(keeper.sessions):
            keeper.tree.end_session(session)
        keeper.sessions.clear()
        self.bench.node(str(METADATA)).machine = keeper
        if incarnation:
            self.draw(incarnation)
        for node in running:
            lines += self.session(str(node))
        return lines

    @verb
    def draw(self, incarnation: str) -> list[str]:
        """Somebody draws another incarnation."""
        keeper, lines = self.keeper(), []
        keeper.put(DATABASE, encode_database_identity(DatabaseIdentity(incarnation)))
        for send in keeper.news():
            lines += self.bench.receive(str(send.to), str(METADATA), send.message)
        return [*lines, *self.bench.settle()]

    @verb
    def found_broken(self, node: str, part: str) -> list[str]:
        """The bytes of a stored part rot, and its node notices."""
        self.damage(node, part)
        lines = self.bench.receive(node, node, PartBroken(TABLE, 0, PartId(part)))
        return [*lines, *self.bench.settle()]
