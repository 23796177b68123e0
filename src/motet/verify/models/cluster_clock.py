"""The cluster clock: transactions on several nodes, two-phase commit, and the visible clock."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Literal

from motet.verify.model import (
    Model,
    Record,
    Variant,
    action,
    chosen,
    invariant,
    leads_to,
    numbered,
    parameter,
    require,
    step,
    strong,
)
from motet.verify.models.merge_tree import Natural

Status = Literal["new", "running", "committed", "aborted"]
Nodes = frozenset[Natural]


class Transaction(Record, frozen=True):
    """A transaction that writes one key on each of its nodes."""

    status: Status = "new"
    nodes: Nodes = frozenset()
    #: the clock its client had seen when it began
    begin: Natural = 0
    #: transactions whose answer its client had seen
    after: frozenset[Natural] = frozenset()
    #: where its key is locked, and the clock that each node gave to its prepare
    locked: Nodes = frozenset()
    prepared: frozenset[tuple[Natural, Natural]] = frozenset()
    clock: Natural = 0
    #: where the outcome is known: the clock adjusted, the change readable, the key free
    applied: Nodes = frozenset()


class Node(Record, frozen=True):
    """The clock of a node, what of it is on disk, and its promise about commits to come."""

    hlc: Natural = 0
    sequence: Natural = 0
    #: no commit at or below it will follow here
    closed: Natural = 0


class State(Record, frozen=True):
    """The nodes, the transactions, and what a reader of the feed has been given."""

    node: tuple[Node, ...]
    transaction: tuple[Transaction, ...]
    visible: Natural = 0
    #: (clock, transaction, node) in the order of reading
    feed: tuple[tuple[Natural, Natural, Natural], ...] = ()
    #: transactions in the order in which each node applied them
    order: tuple[tuple[Natural, ...], ...] = ()
    restarts: Natural = 0


def _participants(model: ClusterClock, _: State) -> list[Nodes]:
    every = range(model.nodes)
    return [
        frozenset(some)
        for count in range(1, model.nodes + 1)
        for some in combinations(every, count)
    ]


class ClusterClock(Model[State]):
    """Transactions take the highest clock of their nodes; a feed shows what no commit can precede any more.

    A node's clock is a number here: milliseconds and counter together, without the wall, which may only
    raise it. Every tick is on disk before it is used. A transaction locks its key on each node, takes a
    tick of each (above the clock its client has seen), commits at the highest, and every node moves to that
    clock when it applies the outcome. A node closes its clock below its oldest prepare without an outcome;
    the visible clock is the lowest closed one, and the feed is what was committed up to it, by clock and
    transaction.
    """

    name = "cluster-clock"
    state_type = State
    may_end = True
    nodes = parameter(2, least=1, most=3, what="nodes")
    transactions = parameter(2, least=1, most=3, what="transactions in all")
    most_restarts = parameter(1, least=0, most=2, what="restarts of nodes in all")
    AllNodes = numbered("nodes", "n")
    Transactions = numbered("transactions", "t")
    Participants = chosen(_participants)
    fairness = (
        *strong("commit", "abort", "close", "read_feed", each=True),
        *strong("commit_on_node", "abort_on_node", each=True),
    )

    def initial(self) -> Iterator[State]:
        yield State(
            (Node(),) * self.nodes,
            (Transaction(),) * self.transactions,
            order=((),) * self.nodes,
        )

    def put(self, s: State, t: int, transaction: Transaction) -> State:
        """The state with one transaction replaced."""
        every = s.transaction
        return s.but(transaction=(*every[:t], transaction, *every[t + 1 :]))

    def put_node(self, s: State, n: int, node: Node) -> State:
        """The state with one node replaced."""
        return s.but(node=(*s.node[:n], node, *s.node[n + 1 :]))

    def moved(self, node: Node, clock: int) -> Node:
        """``AdjustClock``: only forwards, and on disk."""
        return node if node.hlc >= clock else node.but(hlc=clock, sequence=clock)

    def ticked(self, node: Node, seen: int) -> Node:
        """``GetNextNodeClockValue``, above what the client has seen."""
        clock = max(node.hlc, seen) + 1
        return node.but(hlc=clock, sequence=self.on_disk(node, clock))

    def on_disk(self, node: Node, clock: int) -> int:  # noqa: ARG002
        """What of a tick is durable before it is used."""
        return clock

    # a transaction

    @action(t=Transactions, nodes=Participants)
    def begin(self, s: State, t: int, nodes: Nodes) -> State:
        require(
            s.transaction[t].status == "new" and all(o.status != "new" for o in s.transaction[:t])
        )
        seen = [i for i, one in enumerate(s.transaction) if self.is_answered(one)]
        clock = max((s.transaction[i].clock for i in seen), default=0)
        return self.put(s, t, Transaction("running", nodes, self.carried(clock), frozenset(seen)))

    def is_answered(self, one: Transaction) -> bool:
        """Whether a client may know its outcome."""
        return one.status == "committed"

    def carried(self, clock: int) -> int:
        """What a client brings along of the clocks it has seen."""
        return clock

    @action(t=Transactions, n=AllNodes)
    def lock_key(self, s: State, t: int, n: int) -> State:
        one = s.transaction[t]
        require(one.status == "running" and n in one.nodes and n not in one.locked)
        require(not any(n in o.locked - o.applied for o in s.transaction))
        return self.put(s, t, one.but(locked=one.locked | {n}))

    @action(t=Transactions, n=AllNodes)
    def prepare_on_node(self, s: State, t: int, n: int) -> State:
        one = s.transaction[t]
        require(one.status == "running" and n in self.may_prepare(one))
        require(n not in {where for where, _ in one.prepared})
        node = self.ticked(s.node[n], one.begin)
        return self.put_node(
            self.put(s, t, one.but(prepared=one.prepared | {(n, node.hlc)})), n, node
        )

    def may_prepare(self, one: Transaction) -> Nodes:
        """On which nodes the clock may be taken: where its key is locked, so after the last write."""
        return one.locked

    @action(t=Transactions)
    def commit(self, s: State, t: int) -> State:
        """``PrepareAndSetTransactionClock``, and the decision, written once."""
        one = s.transaction[t]
        require(one.status == "running" and len(one.prepared) == len(one.nodes) == len(one.locked))
        clock = max(given for _, given in one.prepared)
        return self.put(s, t, one.but(status="committed", clock=clock))

    @action(t=Transactions, n=AllNodes)
    def commit_on_node(self, s: State, t: int, n: int) -> State:
        one = s.transaction[t]
        require(one.status == "committed" and n in one.nodes and n not in one.applied)
        order = (*s.order[:n], (*s.order[n], t), *s.order[n + 1 :])
        node = self.adjusted(s.node[n], one.clock)
        return self.put_node(self.put(s, t, one.but(applied=one.applied | {n})), n, node).but(
            order=order
        )

    def adjusted(self, node: Node, clock: int) -> Node:
        """``AdjustClocksToTransactionHighest``, on one of them."""
        return self.moved(node, clock)

    @action(t=Transactions)
    def abort(self, s: State, t: int) -> State:
        require(s.transaction[t].status == "running")
        return self.put(s, t, s.transaction[t].but(status="aborted"))

    @action(t=Transactions, n=AllNodes)
    def abort_on_node(self, s: State, t: int, n: int) -> State:
        one = s.transaction[t]
        require(one.status == "aborted" and n in one.nodes and n not in one.applied)
        return self.put(s, t, one.but(applied=one.applied | {n}))

    # the visible clock

    def pending(self, s: State, n: int) -> list[int]:
        """The clocks of prepares on a node whose outcome it does not know."""
        return [
            clock
            for one in s.transaction
            if n not in one.applied and self.counts(one)
            for where, clock in one.prepared
            if where == n
        ]

    def counts(self, one: Transaction) -> bool:  # noqa: ARG002
        """Whether a transaction without an outcome on a node holds its closed clock."""
        return True

    @action(n=AllNodes)
    def close(self, s: State, n: int) -> State:
        node = s.node[n]
        closed = min([node.hlc, *(clock - 1 for clock in self.pending(s, n))])
        require(closed > node.closed)
        return self.put_node(s, n, node.but(closed=closed))

    @action
    def read_feed(self, s: State) -> State:
        visible = self.readable_up_to(s)
        new = sorted(
            (one.clock, t, n)
            for t, one in enumerate(s.transaction)
            if one.status == "committed" and one.clock <= visible
            for n in one.applied
            if (one.clock, t, n) not in s.feed
        )
        require(new or visible > s.visible)
        return s.but(visible=max(s.visible, visible), feed=(*s.feed, *new))

    def readable_up_to(self, s: State) -> int:
        """The visible clock: nothing at or below it is still to come, anywhere."""
        return min(node.closed for node in s.node)

    @action(n=AllNodes)
    def restart(self, s: State, n: int) -> State:
        """``InitClockAtBoot``: above what is on disk, whatever the wall says."""
        require(s.restarts < self.most_restarts)
        node = s.node[n]
        clock = node.sequence + 1
        node = Node(clock, clock, node.closed)
        return self.put_node(s, n, node).but(restarts=s.restarts + 1)

    # what must hold

    @invariant
    def feed_is_in_order(self, s: State) -> bool:
        """Each change is above the one before it, by clock, transaction and index."""
        return all(a < b for a, b in pairwise(s.feed))

    @invariant
    def feed_is_complete(self, s: State) -> bool:
        """What was committed at or below the visible clock was read, on all its nodes."""
        return all(
            (one.clock, t, n) in s.feed
            for t, one in enumerate(s.transaction)
            if one.status == "committed" and one.clock <= s.visible
            for n in one.nodes
        )

    @invariant
    def cause_is_before_effect(self, s: State) -> bool:
        """A transaction whose client had seen another has a later clock."""
        return all(
            s.transaction[cause].clock < one.clock
            for one in s.transaction
            if one.status == "committed"
            for cause in one.after
        )

    @invariant
    def key_order_is_clock_order(self, s: State) -> bool:
        """Changes of one key have clocks in the order in which they were made."""
        return all(
            s.transaction[a].clock < s.transaction[b].clock
            for applied in s.order
            for a, b in pairwise(applied)
        )

    @step
    def node_clock_never_falls(self, s: State, t: State) -> bool:
        """Not even by a restart."""
        return all(b.hlc >= a.hlc for a, b in zip(s.node, t.node, strict=True))

    @leads_to
    def committed_is_read(self, s: State) -> tuple[bool, bool]:
        """The feed does not stand still before what is committed, if others come after it."""
        waits = any(
            one.status == "committed"
            and all(node.hlc >= one.clock for node in s.node)
            and not any(entry[1] == t for entry in s.feed)
            for t, one in enumerate(s.transaction)
        )
        return waits, not waits

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.cluster_clock_variants import clock_variants

        return clock_variants()
