"""Whose disk may be lost or damaged, so that every shard survives it.

An election needs a majority of *members*: nodes that have everything they ever acknowledged. A disk that is
lost, or damaged where a shard lies, makes its node no member until it has been repaired from a peer. So a
disk may be struck only if, for each shard on it, a majority of the ensemble is left whose disks say that they
are members and have not been struck before; and, while an ensemble is changed, of the larger one as well.

What is on disk counts, not what a node believes: it may crash at any time.
"""

from __future__ import annotations

from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.shardlog.meta import decode_meta, meta_file
from motet.core.streams.cluster_messages import ShardMetadata
from motet.errors import BadBytes
from motet.ids import FileName, NodeId, ShardName
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.verify.storms.streams_checks import Watch


class Atlas:
    """What is struck, and what may be."""

    def __init__(self, watch: Watch, hosts: dict[NodeId, Host]) -> None:
        self._watch = watch
        self._hosts = hosts
        #: damage that may not have been noticed yet
        self.rotten: dict[tuple[NodeId, ShardName], None] = {}

    def may_lose(self, node: NodeId) -> bool:
        """Whether all of a node's disk can be spared."""
        return all(self._survives(node, metadata) for metadata in self._watch.metadata.values())

    def may_contract(self, shard: ShardName) -> bool:
        """Whether all disks of an ensemble are whole."""
        metadata = self._watch.metadata.get(shard)
        return metadata is not None and all(self.is_whole(n, shard) for n in metadata.ensemble)

    def _survives(self, node: NodeId, metadata: ShardMetadata) -> bool:
        change = metadata.reconfiguration
        ensembles = [metadata.ensemble]
        if change is not None and change.new_node is not None:
            ensembles.append((*metadata.ensemble, change.new_node))
        if change is not None and change.op is ReconfigurationOp.CONTRACT:
            return node not in metadata.ensemble
        for ensemble in ensembles:
            if node not in ensemble:
                continue
            whole = [
                each for each in ensemble if each != node and self.is_whole(each, metadata.shard)
            ]
            if len(whole) < len(ensemble) // 2 + 1:
                return False
        return True

    def is_whole(self, node: NodeId, shard: ShardName) -> bool:
        """Whether this disk says that the node is a member, and was not struck."""
        if (node, shard) in self.rotten:
            return False
        data = self._hosts[node].disk.durable(meta_file(shard), 0, 1 << 30)
        if not data:
            return False
        try:
            meta = decode_meta(shard, data)
        except BadBytes:
            return False
        return meta.is_member and not meta.is_damaged

    # The life of damage

    def wiped(self, node: NodeId) -> None:
        """What was damaged there is gone with the rest."""
        self.rotten = {key: None for key in self.rotten if key[0] != node}

    def repaired(self, node: NodeId, shard: ShardName) -> None:
        """A snapshot has taken the place of everything."""
        self.rotten.pop((node, shard), None)

    def page(self, node: NodeId) -> Page:
        return Page(self, node)


class Page:
    """The page of one node: what its disk asks before it is damaged."""

    def __init__(self, atlas: Atlas, node: NodeId) -> None:
        self._atlas = atlas
        self._node = node

    def spot(self, dice: Dice, /) -> tuple[FileName, int] | None:
        """A byte of a file of a shard that can be repaired from elsewhere."""
        atlas, node = self._atlas, self._node
        disk = atlas._hosts[node].disk
        shards = [
            shard
            for shard, metadata in atlas._watch.metadata.items()
            if node in metadata.ensemble
            and metadata.reconfiguration is None
            and atlas._survives(node, metadata)
        ]
        if not shards:
            return None
        shard = dice.pick(shards)
        files = [file for file in disk.files() if file.startswith(f"{shard}-")]
        files = [file for file in files if disk.durable(file, 0, 1)]
        if not files:
            return None
        file = dice.pick(files)
        size = len(disk.durable(file, 0, 1 << 30))
        atlas.rotten[node, shard] = None
        return file, dice.between(0, size - 1)

    def may_fail(self, _file: FileName, _offset: int, _size_bytes: int, /) -> bool:
        """Reads that fail once work the next time."""
        return True
