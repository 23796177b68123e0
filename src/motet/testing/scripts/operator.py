"""Golden scripts about operators: ``o1``, ``o2`` …, data nodes ``n1`` … that are puppets, and a keeper.

``cluster`` starts all of them and makes ``o1`` the active operator. Streams are founded with ``create``; a
script names shards as ``orders.0``. Time stands still but for ``run`` and for commands that wait for an
answer. What is told are the notes of operators, answers to the client, and sends of the kinds that are
traced.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.core.metadata.definitions import StreamDefinition
from motet.core.metadata.paths import (
    NODES,
)
from motet.core.operator.context import OperatorConfig
from motet.core.operator.operator import Operator
from motet.core.operator.state import NodeEntry
from motet.core.streams.cluster_messages import (
    ContractShard,
    CreateStream,
    DeleteStream,
    DescribeShards,
    DrainNode,
    ElectLeader,
    EnableClock,
    ExpandShard,
    SwapNode,
)
from motet.ids import (
    Address,
    Epoch,
    NodeId,
    RequestId,
    ShardName,
    StreamId,
    StreamName,
)
from motet.testing.part import verb
from motet.testing.scripts.operator_bench import entry_of, named_shard, told_version
from motet.testing.scripts.operator_keeper import KEEPER_NAME, KeeperCommands
from motet.testing.scripts.operator_puppets import PuppetKeeper, PuppetNode, PuppetReplica
from motet.testing.workbench import Lost

CLIENT = "client"


class OperatorPart(KeeperCommands):
    """Commands for a cluster of puppets with real operators."""

    name = "operator"

    def __init__(self) -> None:
        super().__init__()
        self.config = OperatorConfig()
        self.disks: dict[str, dict[ShardName, PuppetReplica]] = {}
        self.lives = 0
        self.requests = 0
        self.requested: list[Message] = []

    # The cluster

    @verb
    def cluster(self, *, nodes: int = 3, operators: int = 1, active: bool = True) -> list[str]:
        """Put a keeper, data nodes and operators on the bench, and start them; o1 is active."""
        self.bench.add(KEEPER_NAME, PuppetKeeper)
        for number in range(1, nodes + 1):
            self.add_node(f"n{number}")
        for number in range(1, operators + 1):
            self._add_operator(NodeId(f"o{number}"))
        self.start()
        return self.promote("o1") if active else []

    @verb
    def add_node(self, node: str, *, start: bool = False) -> list[str]:
        """A data node with its entry in the store."""
        self.disks[node] = {}
        self.bench.add(node, lambda: self._puppet(NodeId(node)))
        entry = NodeEntry(NodeId(node), ("data",), f"{node}:7400", f"{node}:7403")
        self._keeper().put(f"{NODES}/{node}", msgspec.json.encode(entry))
        if not start:
            return []
        return [*self.bench.start(node), *self._changed(NODES)]

    def _puppet(self, node: NodeId) -> PuppetNode:
        self.lives += 1
        return PuppetNode(node, self.disks[node], self.lives)

    def _add_operator(self, own: NodeId) -> None:
        self.bench.add(own, lambda: Operator(self.config, own))

    @verb
    def config_(self, name: str, value: int) -> list[str]:
        """Change a setting of operators that are started from now on."""
        self.config = msgspec.structs.replace(self.config, **{name: value})
        return []

    @verb
    def ask(self, operator: str) -> list[str]:
        """Ask this operator from now on, whether it is active or not."""
        self.active = operator
        return []

    @verb
    def crash(
        self, node: str | None = None, *, keep: str | None = None, torn: str | None = None
    ) -> list[str]:
        """Stop a node or an operator dead; what a data node knew of its shards stays."""
        assert keep is None
        assert torn is None
        name = self.named(node)
        machine = self.bench.node(name).running()
        if isinstance(machine, PuppetNode):
            self.disks[name] = machine.state.replicas
        self.bench.crash(name)
        return []

    @verb
    def wipe(self, node: str) -> list[str]:
        """A data node starts again with an empty disk."""
        if self.bench.node(node).machine is not None:
            self.crash(node)
        self.disks[node] = {}
        return self.bench.start(node)

    @verb
    def run_(self, ms: int) -> list[str]:
        """Let time pass."""
        return self.bench.run_ms(ms)

    @verb
    def lose(self, kind: str, *, from_: str | None = None, to: str | None = None) -> list[str]:
        """Lose a kind of message, or ``all``, from now on; ``heal`` ends it."""
        self.bench.lost.append(Lost(kind, from_, to))
        return []

    @verb
    def trace(self, *kinds: str) -> list[str]:
        """Tell the sends of these kinds, and of no others."""
        self.bench.traced = kinds
        return []

    @verb
    def mute(self, *notes: str) -> list[str]:
        """Do not tell these notes any more."""
        self.bench.muted.update(dict.fromkeys(f"operator_{note}" for note in notes))
        return []

    # Nodes

    @verb
    def head(self, node: str, entry: str, *, shard: str | None = None, epoch: int = 0) -> list[str]:
        """Let the log of a replica end here, whether the node runs or not."""
        replica = self._replica(node, shard)
        replica.head = entry_of(entry)
        if epoch:
            replica.epoch = Epoch(epoch)
        return []

    @verb
    def unsafe(self, node: str, is_unsafe: bool) -> list[str]:
        """Let a leader refuse to commit contractions."""
        self._replica(node, None).is_unsafe = is_unsafe
        return []

    @verb
    def says(
        self,
        node: str,
        *,
        opened: int = 0,
        stalled: str = "",
        misses: str = "",
        logged: str = "",
        drift: int | None = None,
        found: str = "",
    ) -> list[str]:
        """What a node says of transactions, a follower, and its wall: how far it is off, what was found."""
        machine = self.bench.node(node).machine
        assert isinstance(machine, PuppetNode)
        state = machine.state
        for replica in state.replicas.values():
            replica.unsettled, replica.stalled = opened, tuple(map(NodeId, stalled.split()))
        state.missing = (self._shard(misses),) if misses else ()
        state.logged = Clock.parse(logged) if logged else state.logged
        state.drift_ms, state.found = drift, Clock.parse(found) if found else state.found
        return []

    # Requests

    @verb
    def create(
        self, name: str, *, shards: int = 1, replicas: int | None = None, wait: bool = True
    ) -> list[str]:
        """Create a stream."""
        stream = StreamId(f"{len(self.streams) + 1:016x}")
        if name not in self.streams:
            self.streams[name] = stream
            self.bench.short[f"{stream}."] = f"{name}."
        definition = StreamDefinition(stream, StreamName(name), shards, replicas)
        return self._ask(CreateStream(self._request(), definition, self._fence()), wait)

    @verb
    def delete(self, name: str, *, wait: bool = True) -> list[str]:
        """Delete the stream that has this name now."""
        stream = self._stream_id(StreamName(name))
        return self._ask(DeleteStream(self._request(), StreamName(name), stream), wait)

    @verb
    def again(self, number: int, *, wait: bool = True) -> list[str]:
        """The so manieth request of the client comes once more."""
        return self._ask(self.requested[number - 1], wait)

    @verb
    def elect(
        self, shard: str = "orders.0", *, prefer: str | None = None, wait: bool = True
    ) -> list[str]:
        """Elect a leader anew."""
        stream, number = named_shard(shard)
        preferred = None if prefer is None else NodeId(prefer)
        return self._ask(ElectLeader(self._request(), stream, number, preferred), wait)

    @verb
    def swap(
        self, old: str, new: str | None = None, *, shard: str = "orders.0", wait: bool = True
    ) -> list[str]:
        """Replace a node."""
        stream, number = named_shard(shard)
        node = None if new is None else NodeId(new)
        return self._ask(SwapNode(self._request(), stream, number, NodeId(old), node), wait)

    @verb
    def expand(
        self, new: str | None = None, *, shard: str = "orders.0", wait: bool = True
    ) -> list[str]:
        """Add a node."""
        stream, number = named_shard(shard)
        node = None if new is None else NodeId(new)
        return self._ask(ExpandShard(self._request(), stream, number, node), wait)

    @verb
    def contract(
        self, old: str | None = None, *, shard: str = "orders.0", wait: bool = True
    ) -> list[str]:
        """Take a node out."""
        stream, number = named_shard(shard)
        node = None if old is None else NodeId(old)
        return self._ask(ContractShard(self._request(), stream, number, node), wait)

    @verb
    def drain(self, node: str, drained: bool = True, *, wait: bool = True) -> list[str]:
        """Empty a node, or take that back."""
        return self._ask(DrainNode(self._request(), NodeId(node), drained), wait, ms=20_000)

    @verb
    def clock(self, enabled: bool, *, wait: bool = True) -> list[str]:
        """Have clocks shown, or not."""
        return self._ask(EnableClock(self._request(), enabled), wait)

    def _ask(self, message: Message, wait: bool, ms: int = 10_000) -> list[str]:
        answers = self.bench.received.setdefault(Address(CLIENT), [])
        answers.clear()
        self.requested.append(message)
        lines = self.bench.receive(self.active, CLIENT, message)
        if wait:
            lines += self.bench.run_ms(ms, until=lambda: bool(answers))
            if not answers:
                lines.append("no answer")
        return lines

    def _request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    # Looking

    @verb
    def replicas(self, shard: str | None = None) -> list[str]:
        """What nodes have of a shard; a leader with the factor it was told."""
        name = self._shard(shard)
        lines = []
        for node, disk in self.disks.items():
            machine = self.bench.node(node).machine
            known = machine.state.replicas if isinstance(machine, PuppetNode) else disk
            each = known.get(name)
            if each is None:
                lines.append(f"{node} has nothing")
                continue
            text = f"{node} {each.status} epoch={each.epoch} head={each.head}"
            if each.status == "leader":
                text += f" rf={each.replication_factor} cursors={' '.join(sorted(each.cursors))}"
            lines.append(text if each.is_member else f"{text} not a member")
        return lines

    @verb
    def maps(self) -> list[str]:
        """The version of the map that each node has."""
        lines = []
        for node in self.disks:
            machine = self.bench.node(node).machine
            if isinstance(machine, PuppetNode):
                lines.append(f"{node} {told_version(machine.state.map_version)}")
        return lines

    @verb
    def describe(self) -> list[str]:
        """Ask how the shards of all streams stand."""
        return self._ask(DescribeShards(self._request(), None), wait=True)

    def _replica(self, node: str, shard: str | None) -> PuppetReplica:
        machine = self.bench.node(node).machine
        known = machine.state.replicas if isinstance(machine, PuppetNode) else self.disks[node]
        return known.setdefault(self._shard(shard), PuppetReplica())
