"""Whose disk may be lost or damaged, so that every shard survives it.

An election needs a majority of *members*: nodes that have everything they ever acknowledged. A disk that is
lost, or damaged where a shard lies, makes its node no member until it has been repaired from a peer. So a
disk may be struck only if, for each shard on it, a majority of the ensemble is left whose disks say that they
are members and have not been struck before; and, while an ensemble is changed, of the larger one as well.

What is on disk counts, not what a node believes: it may crash at any time.

Faults that are aimed: a node that goes down now, a link that is cut now, and both whole again later.

The nemesis strikes anywhere at any time. Some moments of a protocol are so short, and some sequences so long,
that it would take a million seeds to hit them: those are aimed at (``streams_moments``, ``streams_plays``).
Nothing is done here that the world's faults could not do; and nothing at all once the storm is over.

Strikes at the moments of a change of an ensemble: when the store says so, and when the leader has done it.

Each phase of each change is to stall, before and after the leader has heard of it. So somebody watches the
store and the leaders, and at such a moment, now and then, takes down the active operator, the leader or the
new node, or cuts the links between them: for a moment, so that the change goes on, or for so long that an
election has to resolve it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from motet.core.machine import NS_PER_MS, Effect, Event, Note
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.shardlog.meta import decode_meta, meta_file
from motet.core.streams.cluster_messages import Reconfiguration, ShardMetadata, ShardStatus
from motet.errors import BadBytes
from motet.ids import Address, Epoch, FileName, LogName, NodeId, ShardName
from motet.sim.dice import Dice
from motet.sim.faults import NetworkFaults
from motet.sim.host import Host
from motet.sim.network import NS_PER_US
from motet.sim.world import SimNode, World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_store import Store


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
        data = self._hosts[node].disk.durable(meta_file(LogName(shard)), 0, 1 << 30)
        if not data:
            return False
        try:
            meta = decode_meta(LogName(shard), data)
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


Link = tuple[Address, Address]


class Strikes:
    """What an aimed fault is made of."""

    def __init__(self, world: World, hosts: dict[NodeId, Host], operators: list[Host]) -> None:
        self._world = world
        self._hosts = hosts
        self._operators = operators
        self.may_crash = world.faults.nodes.crash_interval_ms > 0
        self.may_cut = world.faults.network != NetworkFaults()

    @property
    def is_over(self) -> bool:
        return self._world.fabric.healed

    @property
    def operators(self) -> list[Address]:
        return [host.node.address for host in self._operators]

    def others(self, *nodes: NodeId) -> list[Address]:
        """All data nodes but these."""
        return [Address(name) for name in self._hosts if name not in nodes]

    def later(self, after_us: int, action: Callable[..., None], *args: object) -> None:
        """Do this then, if the storm still goes on."""
        self._world.at(after_us * NS_PER_US, self._unless_over, (action, args))

    def _unless_over(self, action: Callable[..., None], args: tuple[object, ...]) -> None:
        if not self.is_over:
            action(*args)

    # Nodes

    def crash(self, name: str, down_ms: int, what: str) -> None:
        """Down now, and up again then."""
        node = self._world.nodes[Address(name)]
        if self.is_over or not self.may_crash:
            return
        if node.up:
            self._world.record(name, "!", f"aimed: {what}")
            self._world.crash(node)
        self._world.at(down_ms * NS_PER_MS, self._start, (node,))

    def start(self, name: str) -> None:
        """Up now, if it is down."""
        self._start(self._world.nodes[Address(name)])

    def _start(self, node: SimNode) -> None:
        if not node.up:
            self._world.start(node)

    # Links

    def cut(
        self,
        left: Iterable[str],
        right: Sequence[str],
        for_ms: int,
        what: str,
        *,
        is_one_way: bool = False,
    ) -> list[Link]:
        """Nothing passes from left to right, nor back unless it is one way, for so long."""
        if self.is_over or not self.may_cut:
            return []
        links: list[Link] = []
        for a in left:
            for b in right:
                links.append((Address(a), Address(b)))
                if not is_one_way:
                    links.append((Address(b), Address(a)))
        self._world.record("network", "!", f"aimed: {what}")
        self._world.fabric.blocked.update(dict.fromkeys(links))
        self._world.at(for_ms * NS_PER_MS, self.heal, (links,))
        return links

    def heal(self, links: list[Link]) -> None:
        """Let these pass again."""
        for link in links:
            self._world.fabric.blocked.pop(link, None)


moment_us_max = 2_000
hiccup_ms = (70, 350)
"""Longer than it takes until an operator asks again, and shorter than its patience."""

outage_ms = (500, 1_200)
"""Longer than it takes until somebody is taken for dead."""

MOMENTS = ("prepare", "prepared", "commit", "committed", "committed")
"""The store says so, the leader has done so, twice. Not all changes come to the last one."""

Strike = Callable[[ShardMetadata, Reconfiguration], None]


class Moments:
    """Watches for them. ``share`` is how many changes are struck, each at one of its moments."""

    def __init__(
        self, world: World, watch: Watch, store: Store, strikes: Strikes, share: float
    ) -> None:
        self._dice: Dice = world.dice.fork("moments")
        self._watch = watch
        self._store = store
        self._strikes = strikes
        self._share = share
        #: the moment at which each change is struck, None for none of them
        self._chosen: dict[tuple[ShardName, Epoch], str | None] = {}

    # The moments

    def stored(self, before: ShardMetadata | None, after: ShardMetadata | None) -> None:
        """The store says so; nobody has been told yet."""
        change = None if after is None else after.reconfiguration
        if after is None or change is None or after.status is not ShardStatus.RECONFIGURATION:
            return
        if before is None or before.reconfiguration != change:
            self._come(after, change.phase.value)

    def saw(self, _host: Host, _event: Event, effects: list[Effect]) -> None:
        """A leader has prepared or done it; nobody has heard of that yet."""
        for effect in effects:
            if not isinstance(effect, Note):
                continue
            for moment in ("prepared", "committed"):
                if effect.what.startswith(f"shard_{moment}_"):
                    shard = ShardName(effect.detail.partition(" ")[0])
                    metadata = self._watch.metadata.get(shard)
                    if metadata is not None:
                        self._come(metadata, moment)

    def _come(self, metadata: ShardMetadata, moment: str) -> None:
        change = metadata.reconfiguration
        if change is None or self._strikes.is_over:
            return
        key = (metadata.shard, metadata.epoch)
        if key not in self._chosen:
            is_struck = self._dice.chance(self._share)
            self._chosen[key] = self._dice.pick(MOMENTS) if is_struck else None
        if self._chosen[key] == "committed" and moment == "commit":
            self._silence(metadata)
        if self._chosen[key] != moment:
            return
        self._chosen[key] = None
        # What a leader says is on its way: it arrives unless the operator is struck right now.
        is_said = moment in ("prepared", "committed")
        after_us = 0 if is_said else self._dice.pick([0, self._dice.between(1, moment_us_max)])
        strike = self._dice.pick(self._fitting(change, moment))
        self._strikes.later(after_us, strike, metadata, change)

    def _fitting(self, change: Reconfiguration, moment: str) -> list[Strike]:
        fitting: list[Strike] = [self._operator_dies] * 3
        fitting += [self._operator_hiccups, self._operator_hiccups, self._leader_dies]
        if change.new_node is not None and moment != "committed":
            fitting += [self._new_node_dies]
        if change.op is ReconfigurationOp.NODE_SWAP and moment == "committed":
            fitting += [self._ensemble_splits] * 6
        return fitting

    # The strikes

    def _silence(self, metadata: ShardMetadata) -> None:
        """The leader will do it, and nobody will hear of that."""
        if metadata.leader is not None:
            what = f"{metadata.leader} unheard in {_told(metadata)}"
            operators, for_ms = self._strikes.operators, self._ms(hiccup_ms)
            self._strikes.cut([metadata.leader], operators, for_ms, what, is_one_way=True)

    def _ms(self, span: tuple[int, int]) -> int:
        return self._dice.between(*span)

    def _operator_dies(self, metadata: ShardMetadata, _change: Reconfiguration) -> None:
        """The next one finds what stands in the store."""
        active = self._store.active
        if active is not None:
            name = active[0].node.address
            down_ms = self._dice.pick([self._ms(hiccup_ms), self._ms(outage_ms)])
            self._strikes.crash(name, down_ms, f"operator in {_told(metadata)}")

    def _operator_hiccups(self, metadata: ShardMetadata, _change: Reconfiguration) -> None:
        """What it asks, or what it is answered, does not arrive for a moment; it has to ask again."""
        operators, nodes = self._strikes.operators, self._strikes.others()
        left, right = self._dice.pick([(operators, nodes), (nodes, operators)])
        what = f"operators unheard in {_told(metadata)}"
        self._strikes.cut(left, right, self._ms(hiccup_ms), what, is_one_way=True)

    def _leader_dies(self, metadata: ShardMetadata, _change: Reconfiguration) -> None:
        if metadata.leader is not None:
            self._strikes.crash(metadata.leader, self._ms(outage_ms), f"leads {_told(metadata)}")

    def _new_node_dies(self, metadata: ShardMetadata, change: Reconfiguration) -> None:
        if change.new_node is not None:
            self._strikes.crash(change.new_node, self._ms(outage_ms), f"joins {_told(metadata)}")

    def _ensemble_splits(self, metadata: ShardMetadata, change: Reconfiguration) -> None:
        """The leader and the new node on one side; those that stay, and the next operator, on the other."""
        if metadata.leader is None or change.new_node is None:
            return
        inside: tuple[NodeId, ...] = (metadata.leader, change.new_node)
        outside = [*self._strikes.others(*inside), *self._strikes.operators]
        for_ms = self._ms(outage_ms) + outage_ms[0]
        self._strikes.cut(inside, outside, for_ms, f"a split in {_told(metadata)}")
        self._operator_dies(metadata, change)


def _told(metadata: ShardMetadata) -> str:
    change = metadata.reconfiguration
    assert change is not None
    return f"{change.op.value} {change.phase.value} of {metadata.shard}"
