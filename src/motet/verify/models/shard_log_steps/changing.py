"""The shard log with ensembles that change: swap, expand, contract, and elections that resolve them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, ClassVar

from motet.verify.explore.instances import led
from motet.verify.model import Variant, action, chosen, invariant, parameter, require
from motet.verify.models.shard_log_steps.protocol import ShardLogSteps
from motet.verify.models.shard_log_steps.records import (
    NOBODY,
    Change,
    Leadership,
    Node,
    State,
    Stored,
    cut,
    epoch_at,
    head,
    length,
)


def _ensembles(model: ShardLogChanges, _: State) -> list[tuple[int, ...]]:
    nodes = range(model.nodes)
    return [some for size in range(1, model.nodes + 1) for some in combinations(nodes, size)]


def _changes(model: ShardLogChanges, s: State) -> list[Change]:
    """Every change that the ensemble of the store allows."""
    if not s.stored:
        return []
    last = s.stored[-1]
    old = [n for n in last.ensemble if n != last.leader]
    new = [n for n in range(model.nodes) if n not in last.ensemble]
    found = [Change("swap", one, other) for one in old for other in new]
    found += [Change("expand", new=other) for other in new]
    found += [Change("contract", old=one) for one in old]
    return [each for each in found if each.op in model.ops]


class ShardLogChanges(ShardLogSteps):
    """A shard whose ensemble changes: each change in two phases, and written down before it is done.

    The metadata store is in it, and of operators only what they write there: an epoch is raised, a change is
    begun, ordered, ended, called off. What they tell a node follows from that, and may arrive late, twice or
    never. So the store is kept by epoch: an order is that of its epoch, whatever has been written since.
    """

    name = "shard-log-changes"
    ensemble = parameter(2, least=1, most=7, what="nodes of the first ensemble")
    #: which changes there are
    ops: ClassVar[tuple[str, ...]] = ("swap", "expand", "contract")
    Nodes, Epochs, AnyEpochs = ShardLogSteps.Nodes, ShardLogSteps.Epochs, ShardLogSteps.AnyEpochs
    Offsets, Others, Whole = ShardLogSteps.Offsets, ShardLogSteps.Others, ShardLogSteps.Whole
    Ensembles = chosen(_ensembles)
    Changes = chosen(_changes)

    def initial(self) -> Iterator[State]:
        inside = range(min(self.ensemble, self.nodes)) if self.founded else ()
        nodes = tuple(Node(member=n in inside) for n in range(self.nodes))
        start = State(nodes)
        if self.founded:
            start = start.but(stored=(self.first(tuple(inside)),))
        yield led(self, start, self.script) if self.script else start

    def put(self, s: State, n: int, node: Node, **rest: Any) -> State:
        """Only a leader knows how many replicas there are."""
        known = node if node.status == "leader" else node.but(factor=0)
        return super().put(s, n, known, **rest)

    # the store

    def first(self, ensemble: tuple[int, ...]) -> Stored:
        """A shard begins with an election."""
        return Stored(1, ensemble, asked=ensemble)

    def stored(self, s: State, epoch: int) -> Stored:
        """What was written in this epoch; without anything nothing comes of it."""
        found = [each for each in s.stored if each.epoch == epoch]
        require(found)
        return found[0]

    def newest(self, s: State) -> Stored:
        """What stands there now."""
        require(s.stored)
        return s.stored[-1]

    def rewritten(self, s: State, new: Stored) -> tuple[Stored, ...]:
        """The store with what it says of an epoch replaced or added."""
        rest = [each for each in s.stored if each.epoch != new.epoch]
        return tuple(sorted((*rest, new), key=lambda each: each.epoch))

    def fencing(self, stored: Stored) -> tuple[int, ...]:
        """Whom an election asks: also who may have been added."""
        change = stored.change
        if change is None or change.new == NOBODY:
            return stored.ensemble
        return (*stored.ensemble, change.new)

    def final(self, stored: Stored) -> tuple[int, ...]:
        """Whom an election chooses from: a contraction is rolled back, the others are completed."""
        change = stored.change
        if change is None or change.op == "contract":
            return stored.ensemble
        return change.applied_to(stored.ensemble)

    @action(ensemble=Ensembles)
    def found(self, s: State, ensemble: tuple[int, ...]) -> State:
        require(not s.stored)
        return s.but(stored=(self.first(ensemble),))

    @action
    def elect(self, s: State) -> State:
        """What was only prepared is dropped; what was ordered has to be resolved."""
        last = self.newest(s)
        require(last.epoch < self.epochs)
        stalled = last.change if last.is_ordered else None
        begun = Stored(last.epoch + 1, last.ensemble, NOBODY, stalled, stalled is not None)
        return s.but(stored=(*s.stored, begun.but(asked=self.fencing(begun))))

    @action
    def elected(self, s: State) -> State:
        last = self.newest(s)
        require(last.leader == NOBODY)
        leader = self.leadership(s, last.epoch).leader
        steady = Stored(last.epoch, self.final(last), leader, asked=last.asked)
        return s.but(stored=self.rewritten(s, steady))

    @action(change=Changes)
    def begin_change(self, s: State, change: Change) -> State:
        last = self.newest(s)
        require(last.leader != NOBODY and last.change is None and last.epoch < self.epochs)
        require(change.op != "contract" or len(last.ensemble) > 1)
        epoch = last.epoch + 1
        begun = Stored(epoch, last.ensemble, last.leader, change, invited=change.new)
        return s.but(stored=(*s.stored, begun.but(asked=self.fencing(begun))))

    @action
    def order_change(self, s: State) -> State:
        """The leader has prepared it, and a new node has its snapshot."""
        last = self.newest(s)
        require(last.change is not None and last.leader != NOBODY and not last.is_ordered)
        require(self.is_ready(s, last))
        return s.but(stored=self.rewritten(s, last.but(is_ordered=True)))

    def is_ready(self, s: State, stored: Stored) -> bool:
        """Whether a change that is prepared may be ordered."""
        assert stored.change is not None
        if stored.change.new != NOBODY:
            return stored.is_installed
        return self.leadership(s, stored.epoch).change == stored.change

    @action
    def end_change(self, s: State) -> State:
        last = self.newest(s)
        require(last.change is not None and last.is_ordered and last.leader != NOBODY)
        assert last.change is not None
        ensemble = last.change.applied_to(last.ensemble)
        require(self.leadership(s, last.epoch).members == ensemble)
        done = last.but(ensemble=ensemble, change=None, is_ordered=False)
        return s.but(stored=self.rewritten(s, done))

    @action
    def call_off(self, s: State) -> State:
        last = self.newest(s)
        require(last.change is not None and not last.is_ordered)
        own = self.leadership(s, last.epoch)
        require(own.change is None and own.members == last.ensemble)
        return s.but(stored=self.rewritten(s, last.but(change=None)))

    # elections, and what a leader says to those that it counts

    def fence(self, s: State, n: int, epoch: int) -> State:
        require(n in self.stored(s, epoch).asked)
        return super().fence(s, n, epoch)

    def append(self, s: State, n: int, epoch: int, last: int) -> State:
        require(n in self.leadership(s, epoch).members)
        return super().append(s, n, epoch, last)

    def truncate(self, s: State, n: int, keep: int) -> State:
        require(n in self.leadership(s, s.node[n].epoch).members)
        return super().truncate(s, n, keep)

    def become_leader(self, s: State, n: int, others: tuple[int, ...]) -> State:
        me = s.node[n]
        require(n not in others and me.status == "fenced" and me.may_lead and me.member)
        require(all(each.epoch != me.epoch for each in s.leaderships))
        stored = self.stored(s, me.epoch)
        asked, final = self.fencing(stored), self.final(stored)
        require(stored.leader == NOBODY and {n, *others} <= set(final))
        heads = {m: (e, at) for epoch, m, e, at in sorted(s.fences) if epoch == me.epoch}
        members = [m for m in others if m in heads]
        leaving = [m for m in asked if m not in final and m in heads]
        require(1 + len(members) + len(leaving) >= len(asked) // 2 + 1)
        require(all(self.is_not_above(heads[m], me.log) for m in members))
        begun = Leadership(me.epoch, n, me.log, me.log, told=me.commit, members=final)
        begun = begun.but(inherited=length(me.log))
        leader = me.but(status="leader", may_lead=False, factor=self.factor(stored))
        return self.put(s, n, leader, leaderships=self.changed(s, begun))

    def factor(self, stored: Stored) -> int:
        """How many replicas an elected leader is told to expect."""
        return len(self.final(stored))

    # a leader changes its ensemble

    @action(n=Nodes, epoch=Epochs)
    def prepare_change(self, s: State, n: int, epoch: int) -> State:
        """It takes the epoch and goes on; who leaves does not count any more."""
        me, stored = s.node[n], self.stored(s, epoch)
        require(me.status == "leader" and epoch > me.epoch)
        require(stored.change is not None and stored.leader == n)
        return self.leads_on(s, n, epoch, stored.change)

    def leads_on(self, s: State, n: int, epoch: int, change: Change | None) -> State:
        """The same leader in a higher epoch. It serves: all that it was elected with is committed."""
        me = s.node[n]
        own = self.leadership(s, me.epoch)
        require(me.commit > own.inherited)
        begun = own.but(epoch=epoch, elected=me.log, log=me.log, told=me.commit)
        begun = begun.but(change=change, floor=me.commit)
        return self.put(s, n, me.but(epoch=epoch), leaderships=self.changed(s, begun))

    @action(n=Nodes, epoch=Epochs)
    def abort_change(self, s: State, n: int, epoch: int) -> State:
        me, stored = s.node[n], self.stored(s, epoch)
        require(me.status == "leader" and epoch >= me.epoch and stored.leader == n)
        require(stored.change is not None and not stored.is_ordered)
        if epoch > me.epoch:
            return self.leads_on(s, n, epoch, None)
        own = self.leadership(s, epoch)
        require(own.change is not None)
        return s.but(leaderships=self.changed(s, own.but(change=None)))

    @action(n=Nodes)
    def commit_change(self, s: State, n: int) -> State:
        """Who counts, and how many are needed; nothing that is committed becomes less by it."""
        me = s.node[n]
        require(me.status == "leader")
        own, stored = self.leadership(s, me.epoch), self.stored(s, me.epoch)
        require(own.change is not None and stored.is_ordered and stored.change == own.change)
        assert own.change is not None
        members = own.change.applied_to(own.members)
        require(own.change.op != "contract" or self.is_safe(s, n, members))
        done = own.but(members=members, change=None)
        leader = me.but(factor=len(members))
        return self.put(s, n, leader, leaderships=self.changed(s, done))

    def is_safe(self, s: State, n: int, members: Iterable[int]) -> bool:
        """Whether an entry of this epoch, and all that is committed, is on a majority of those that stay."""
        me, held = s.node[n], self.held_by(s, n, members)
        return 0 < me.commit <= held and epoch_at(me.log, held) == me.epoch

    def is_held(self, s: State, n: int, upto: int) -> bool:
        own = self.leadership(s, s.node[n].epoch)
        return self.held_by(s, n, own.members, own.change) >= upto

    def held_by(
        self, s: State, n: int, members: Iterable[int], change: Change | None = None
    ) -> int:
        """Up to where a majority of these has the log, one that is leaving not counting."""
        me, every = s.node[n], tuple(members)
        leaving = NOBODY if change is None else change.old
        counted = [m for m in every if m not in (n, leaving)]
        held = [at for e, m, at in s.acks if e == me.epoch and m in counted]
        needed = len(every) // 2 + 1
        return (
            sorted((me.durable, *held), reverse=True)[needed - 1] if len(held) + 1 >= needed else 0
        )

    # new nodes, and those that have left

    @action(n=Nodes, epoch=Epochs)
    def summon(self, s: State, n: int, epoch: int) -> State:
        """It is told to become a snapshot of this epoch, by the operator or by its leader."""
        me, their = s.node[n], self.leadership(s, epoch)
        require(epoch > me.epoch and their.leader != n)
        require(n in their.members or self.stored(s, epoch).invited == n)
        return self.put(s, n, me.but(status="fenced", epoch=epoch, may_lead=False))

    @action(n=Nodes, last=Offsets)
    def become(self, s: State, n: int, last: int) -> State:
        """A new node becomes what a snapshot is, once: all that was committed before is in that."""
        me = s.node[n]
        their, stored = self.leadership(s, me.epoch), self.stored(s, me.epoch)
        require(stored.invited == n and not stored.is_installed and their.leader != n)
        require(self.covers(their, last) and last <= their.told)
        new = me.but(
            member=True,
            gone=False,
            log=cut(their.log, last),
            durable=last,
            commit=max(me.commit, last),
        )
        return self.put(s, n, new, stored=self.rewritten(s, stored.but(is_installed=True)))

    def covers(self, their: Leadership, last: int) -> bool:
        """Whether a snapshot has all that was committed when the change was prepared."""
        return last >= their.floor

    def install(self, s: State, n: int, last: int, whole: bool) -> State:
        """Whoever asked for it to be installed counts on it at once."""
        require(n in self.leadership(s, s.node[n].epoch).members)
        after = super().install(s, n, last, whole)
        epoch = s.node[n].epoch
        known = max((at for e, m, at in s.acks if (e, m) == (epoch, n)), default=0)
        acks = (after.acks - {(epoch, n, known)}) | {(epoch, n, max(known, last))}
        return after.but(acks=acks)

    def join(self, s: State, n: int) -> State:
        require(not self.is_fresh(s, n) or s.node[n].gone or n in self.stored(s, 1).ensemble)
        return super().join(s, n)

    def is_fresh(self, s: State, n: int) -> bool:
        """Who has left, and removed everything, has never been there."""
        me = s.node[n]
        return (me.gone and not me.log) or super().is_fresh(s, n)

    @action(n=Nodes, epoch=Epochs)
    def delete(self, s: State, n: int, epoch: int) -> State:
        """Who is not in the ensemble of an epoch that goes on without it removes its files."""
        me, their = s.node[n], self.leadership(s, epoch)
        require(me != Node(member=False))
        require(epoch >= me.epoch and n != their.leader and n not in their.members)
        require(their.change is None and self.goes_on(their))
        return self.put(s, n, me.but(status="fenced", may_lead=False, gone=True))

    def goes_on(self, their: Leadership) -> bool:
        """Whether a leader has committed something in its epoch."""
        return their.told > 0 and epoch_at(their.log, their.told) == their.epoch

    @action(n=Nodes)
    def forget(self, s: State, n: int) -> State:
        """Nothing is left of it, and whoever comes back begins anew."""
        me, fresh = s.node[n], Node(member=False, gone=True)
        require(me.gone and me != fresh)
        return self.put(s, n, fresh)

    def restart(self, s: State, n: int, epoch: int, last: int, upto: int, whole: bool) -> State:
        """Of one that was removing its files there may be anything left."""
        me = s.node[n]
        if not me.gone:
            return super().restart(s, n, epoch, last, upto, whole)
        require(s.restarts < self.most_restarts)
        require(last <= length(me.log) and upto <= last)
        left = Node(
            epoch=epoch, member=whole, log=cut(me.log, last), durable=last, commit=upto, gone=True
        )
        fences = s.fences | {(epoch, n, *head(left.log))} if whole and epoch else s.fences
        return self.put(s, n, left, fences=fences, restarts=s.restarts + 1)

    def is_counted(self, leadership: Leadership, n: int) -> bool:
        return n in leadership.members

    # what must hold

    @invariant
    def leader_knows_rep_factor(self, s: State) -> bool:
        """A leader needs a majority of those that count."""
        return all(
            s.node[each.leader].factor == len(each.members)
            for each in s.leaderships
            if s.node[each.leader].status == "leader" and s.node[each.leader].epoch == each.epoch
        )

    @invariant
    def legal_leader_and_ensemble(self, s: State) -> bool:
        """The store names a leader of its ensemble."""
        return all(each.leader in (NOBODY, *each.ensemble) for each in s.stored)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.shard_log_steps.change_variants import change_variants

        return change_variants()
