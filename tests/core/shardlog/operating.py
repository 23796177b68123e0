"""A world with an operator: elections over the fencing ensemble, and changes of the ensemble under load."""

from __future__ import annotations

import msgspec
from tests.core.shardlog.world import Odds, World, WorldNode

from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AbortReconfigurationResponse,
    AddFollowerRequest,
    AddFollowerResponse,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    DeleteShardRequest,
    FenceRequest,
    FenceResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    ReconfigurationOp,
    Snapshot,
    SnapshotRequest,
    SnapshotResponse,
)
from motet.core.shardlog.replica import ShardReplica
from motet.ids import Epoch, NodeId
from motet.testing.scripts.shardlog_bench import SHARD

SWAP, EXPAND, CONTRACT = (
    ReconfigurationOp.NODE_SWAP,
    ReconfigurationOp.EXPAND,
    ReconfigurationOp.CONTRACT,
)


class Change(msgspec.Struct):
    """A change of the ensemble that is under way."""

    op: ReconfigurationOp
    old: NodeId | None
    new: NodeId | None
    factor: int
    phase: str = "prepare"
    snapshot: Snapshot | None = None
    commit_index: EntryId | None = None
    head: EntryId | None = None
    life: int = 0


class OperatedWorld(World):
    """The metadata of one shard, and who does what about it."""

    def __init__(
        self, seed: int, nodes: int = 5, ensemble: int = 3, odds: Odds | None = None
    ) -> None:
        super().__init__(seed, nodes, odds)
        self.epoch = Epoch(0)
        self.ensemble = list(self.nodes)[:ensemble]
        self.leader: NodeId | None = None
        self.is_new = True
        #: fencing, notify or steady
        self.phase = "idle"
        self.answers: dict[NodeId, FenceResponse] = {}
        self.chosen: NodeId | None = None
        self.map: tuple[tuple[NodeId, EntryId], ...] = ()
        self.change: Change | None = None
        self.lives_known: dict[NodeId, int] = {}
        self.elections = 0
        for node in self.nodes.values():
            self.start(node)

    # What is said again and again

    def operate(self) -> None:
        for sender, message in self.heard:
            self._hear(sender, message)
        self.heard = []
        if self.phase == "idle" or self.random.random() < 0.04:
            self.elect()
        elif self.phase == "fencing":
            for node in self._fencing():
                if node not in self.answers:
                    self._fence(node)
        elif self.phase == "notify":
            self._notify()
        else:
            self._operate_steadily()

    def _notify(self) -> None:
        assert self.chosen is not None
        request = BecomeLeaderRequest(SHARD, self.epoch, len(self._final()), self.map)
        self.say(self.chosen, request)

    def _operate_steadily(self) -> None:
        assert self.leader is not None
        leader = self.nodes[self.leader].replica
        if leader is None or leader.epoch < self.epoch - 1 or leader.status == "fenced":
            self.elect()
            return
        if self.change is not None:
            self._go_on(self.change)
            return
        self._fence_lost()
        gone = [node for node in self.nodes if node not in self.ensemble]
        if gone and self.random.random() < 0.2:
            self.say(self.random.choice(gone), DeleteShardRequest(SHARD, self.epoch))
        if self.random.random() < 0.15 and not any(n.is_wiped for n in self.nodes.values()):
            self._begin_change()

    def _fence_lost(self) -> None:
        """Those of the ensemble that do not follow."""
        for node in self.ensemble:
            replica = self.nodes[node].replica
            lost = self.nodes[node].machine is not None and (
                replica is None or replica.status == "fenced" or replica.epoch < self.epoch
            )
            if node != self.leader and lost:
                self._fence(node)

    def _fence(self, node: NodeId) -> None:
        machine = self.nodes[node].machine
        life = 0 if machine is None else machine.shards.incarnation
        self.say(node, FenceRequest(SHARD, self.epoch, life, self.is_new))

    # Elections

    def _fencing(self) -> list[NodeId]:
        change = self.change
        extra = [change.new] if change is not None and change.new is not None else []
        return [*self.ensemble, *extra]

    def _final(self) -> list[NodeId]:
        change = self.change
        if change is None or change.op is CONTRACT:
            return self.ensemble
        return self._changed(change)

    def _changed(self, change: Change) -> list[NodeId]:
        kept = [node for node in self.ensemble if node != change.old]
        return kept if change.new is None else [*kept, change.new]

    def elect(self) -> None:
        self.elections += 1
        if self.change is not None and self.change.phase != "commit":
            self.change = None
        self.epoch = Epoch(self.epoch + 1)
        self.phase, self.leader, self.answers = "fencing", None, {}
        for node in self._fencing():
            self._fence(node)

    def _choose(self) -> None:
        asked = self._fencing()
        members = [n for n in asked if n in self.answers and self.answers[n].is_member]
        candidates = [n for n in self._final() if n in members]
        if len(members) < len(asked) // 2 + 1 or not candidates:
            return
        self.chosen = max(candidates, key=lambda node: self.answers[node].head_index)
        self.map = tuple(
            (node, self.answers[node].head_index)
            for node in self._final()
            if node in self.answers and node != self.chosen
        )
        self.is_new, self.phase = False, "notify"

    # Changes

    def _begin_change(self) -> None:
        others = [node for node in self.ensemble if node != self.leader]
        spare = [node for node in self.nodes if node not in self.ensemble]
        ops = [SWAP, EXPAND] if spare else []
        if len(self.ensemble) > 2:
            ops.append(CONTRACT)
        if not ops:
            return
        op = self.random.choice(ops)
        old = None if op is EXPAND else self.random.choice(others) if others else None
        new = None if op is CONTRACT else self.random.choice(spare)
        if op is SWAP and old is None:
            return
        change = Change(op, old, new, 0)
        change.factor = len(self._changed(change))
        machine = None if new is None else self.nodes[new].machine
        change.life = 0 if machine is None else machine.shards.incarnation
        self.change = change
        self.epoch = Epoch(self.epoch + 1)
        self._go_on(change)

    def _go_on(self, change: Change) -> None:
        leader = self.leader
        assert leader is not None
        if change.phase == "prepare":
            if self.random.random() < 0.05:
                change.phase = "abort"
            request = PrepareReconfigurationRequest(
                SHARD, self.epoch, change.op, change.old, change.new
            )
            self.say(leader, request)
        elif change.phase == "snapshot":
            if self.random.random() < 0.05:
                change.phase = "abort"
            assert change.new is not None
            assert change.snapshot is not None
            assert change.commit_index is not None
            self.say(
                change.new,
                SnapshotRequest(
                    SHARD, self.epoch, change.snapshot, change.commit_index, change.life
                ),
            )
        elif change.phase == "commit":
            self.say(
                leader,
                CommitReconfigurationRequest(
                    SHARD,
                    self.epoch,
                    change.op,
                    change.factor,
                    change.old,
                    change.new,
                    change.head,
                ),
            )
        else:
            self.say(leader, AbortReconfigurationRequest(SHARD, self.epoch))

    # Answers

    def _hear(self, sender: NodeId, message: object) -> None:
        if getattr(message, "epoch", None) != self.epoch:
            return
        match message:
            case FenceResponse():
                self._on_fenced(sender, message)
            case BecomeLeaderResponse() if self.phase == "notify" and sender == self.chosen:
                self.ensemble, self.change = self._final(), None
                self.leader, self.phase = sender, "steady"
            case AddFollowerResponse() if self.phase == "steady":
                pass
        if self.change is not None and self.phase == "steady":
            self._on_changed(self.change, sender, message)

    def _on_fenced(self, sender: NodeId, message: FenceResponse) -> None:
        if self.phase == "fencing" and sender in self._fencing():
            self.answers[sender] = message
            self._choose()
        elif self.phase == "steady" and sender in self.ensemble and sender != self.leader:
            assert self.leader is not None
            request = AddFollowerRequest(SHARD, self.epoch, sender, message.head_index)
            self.say(self.leader, request)

    def _on_changed(self, change: Change, sender: NodeId, message: object) -> None:
        match message:
            case PrepareReconfigurationResponse() if change.phase == "prepare":
                change.snapshot, change.commit_index = message.snapshot, message.commit_index
                change.phase = "snapshot" if change.new is not None else "commit"
            case SnapshotResponse() if change.phase == "snapshot" and sender == change.new:
                change.head, change.phase = message.head_index, "commit"
            case CommitReconfigurationResponse() if change.phase == "commit":
                self.ensemble, self.change = self._changed(change), None
                self.marks[f"done_{change.op.value}"] = 1
            case AbortReconfigurationResponse() if change.phase == "abort":
                self.change = None
                self.marks["done_abort"] = 1

    def may_wipe(self, node: WorldNode) -> bool:
        """Everybody else can do without it."""
        replicas = [self.nodes[name].replica for name in self.ensemble]
        if not all(replica is not None and replica.core.state.is_member for replica in replicas):
            return False
        enough = len(self.ensemble) > 2 or node.name not in self.ensemble
        return self.change is None and self.phase == "steady" and enough

    # The end

    def heal(self, rounds: int = 80) -> None:
        """Nothing goes wrong any more: a leader serves, and everybody has all of it."""
        for node in self.nodes.values():
            node.disk.full = False
            if node.machine is None:
                self.start(node)
        patience = 0
        for _ in range(rounds):
            for _ in range(5):
                for _ in range(len(self.in_flight)):
                    self.deliver(0)
                for node in self.nodes.values():
                    self.sync(node, everything=True)
            self.beat()
            patience = self._operate_healed(patience)
        leader = self.serving()
        assert leader is not None, f"nobody serves: {self.phase} {self.chosen} {self.answers}"
        for name in self.ensemble:
            replica = self.nodes[name].replica
            assert replica is not None
            assert replica.applied_index == leader.applied_index, f"{name} lags"
            assert replica.core.state.is_member, f"{name} is not a member"

    def _operate_healed(self, patience: int) -> int:
        """Do what is to be done; elect anew only if nothing has come of it for long."""
        for sender, message in self.heard:
            self._hear(sender, message)
        self.heard = []
        if self.phase == "steady" and self.serving() is not None and self.change is None:
            self._fence_lost()
            return 0
        if patience > 15 or self.phase == "idle":
            self.elect()
            return 0
        if self.phase == "fencing":
            for name in self._fencing():
                self._fence(name)
        elif self.phase == "notify":
            self._notify()
        elif self.change is not None:
            self._go_on(self.change)
        return patience + 1

    def serving(self) -> ShardReplica | None:
        """Who serves clients in the present epoch."""
        for name in self.ensemble:
            replica = self.nodes[name].replica
            if replica is not None and replica.is_serving and replica.epoch == self.epoch:
                return replica
        return None
