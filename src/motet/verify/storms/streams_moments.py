"""Strikes at the moments of a change of an ensemble: when the store says so, and when the leader has done it.

Each phase of each change is to stall, before and after the leader has heard of it. So somebody watches the
store and the leaders, and at such a moment, now and then, takes down the active operator, the leader or the
new node, or cuts the links between them: for a moment, so that the change goes on, or for so long that an
election has to resolve it.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.machine import Effect, Event, Note
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import Reconfiguration, ShardMetadata, ShardStatus
from motet.ids import Epoch, NodeId, ShardName
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_store import Store
from motet.verify.storms.streams_strikes import Strikes

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
