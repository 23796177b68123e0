"""Which node takes a replica, gives one up, or leads: the least loaded, and of equals the first by name.

All of it is deterministic: the same load gives the same choice, in every process.

P1  A replica is never placed on a node that has one already, nor on one that is to be emptied or is not
    alive.
P2  Spreading shards over nodes leaves the numbers of replicas of any two nodes at most one apart, if they
    were before; and so with leaders, if all ensembles are of one size.
P3  An ensemble has as many nodes as were asked for, all different, or there is none.
P4  A leadership is handed on only if that brings two nodes nearer to each other: that ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from motet.ids import NodeId


class Load(msgspec.Struct):
    """How much each node has; the nodes are those that can take more."""

    replicas: dict[NodeId, int]
    leads: dict[NodeId, int]

    @staticmethod
    def of(
        nodes: Sequence[NodeId],
        ensembles: Sequence[Sequence[NodeId]],
        leaders: Sequence[NodeId | None],
    ) -> Load:
        """Counted over all shards, for these nodes alone."""
        load = Load(dict.fromkeys(sorted(nodes), 0), dict.fromkeys(sorted(nodes), 0))
        for ensemble in ensembles:
            for node in ensemble:
                if node in load.replicas:
                    load.replicas[node] += 1
        for leader in leaders:
            if leader in load.leads:
                load.leads[leader] += 1
        return load

    def place(self, ensemble: Sequence[NodeId]) -> None:
        """Count a new ensemble, led by its first node."""
        for node in ensemble:
            self.replicas[node] += 1
        self.leads[ensemble[0]] += 1


def new_ensemble(load: Load, replicas: int) -> tuple[NodeId, ...] | None:
    """Nodes for a new shard, the one that leads first; None if there are too few (P3)."""
    if not 0 < replicas <= len(load.replicas):
        return None
    in_order = sorted(load.replicas, key=lambda node: (load.replicas[node], node))
    edge = load.replicas[in_order[replicas - 1]]
    below = [node for node in in_order if load.replicas[node] < edge]  # all of these are needed
    equals = [node for node in in_order if load.replicas[node] == edge]  # and some of these
    leader = min(below + equals, key=lambda node: (load.leads[node], load.replicas[node], node))
    # Who leads little is kept for a shard that it can lead.
    equals.sort(key=lambda node: (-load.leads[node], node))
    followers = [node for node in below + equals if node != leader]
    return (leader, *followers[: replicas - 1])


def addition(load: Load, ensemble: Collection[NodeId]) -> NodeId | None:
    """The node that joins an ensemble: of those outside, the one with the fewest replicas (P1)."""
    outside = [node for node in load.replicas if node not in ensemble]
    return min(outside, key=lambda node: (load.replicas[node], node), default=None)


def removal(
    ensemble: Sequence[NodeId],
    leader: NodeId,
    replicas: Mapping[NodeId, int],
    unwanted: Collection[NodeId],
) -> NodeId | None:
    """The node that leaves an ensemble: unwanted ones first, then the one with the most; never the leader."""
    followers = [node for node in ensemble if node != leader]
    return min(
        followers,
        key=lambda node: (node not in unwanted, -replicas.get(node, 0), node),
        default=None,
    )


def ranked_leaders(
    ensemble: Sequence[NodeId], leads: Mapping[NodeId, int], unwanted: Collection[NodeId]
) -> list[NodeId]:
    """Who leads rather: whoever is to stay, then whoever leads least."""
    return sorted(ensemble, key=lambda node: (node in unwanted, leads.get(node, 0), node))


def handover(
    shards: Sequence[tuple[Sequence[NodeId], NodeId]], leads: Mapping[NodeId, int]
) -> tuple[int, NodeId] | None:
    """Which of these shards (ensemble, leader) is to be led by another of its nodes, and by which one (P4).

    The one that brings the most; of equals the first.
    """
    best: tuple[int, NodeId] | None = None
    best_difference = 1
    for number, (ensemble, leader) in enumerate(shards):
        others = [node for node in ensemble if node in leads]
        if leader not in leads or not others:
            continue
        least = min(others, key=lambda node: (leads[node], node))
        if leads[leader] - leads[least] > best_difference:
            best, best_difference = (number, least), leads[leader] - leads[least]
    return best
