"""The shard log as a node takes part in it: fenced, elected, followed, cut, counted, restarted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from motet.verify.explore.instances import led
from motet.verify.model import (
    Model,
    Variant,
    action,
    chosen,
    invariant,
    numbered,
    parameter,
    require,
)
from motet.verify.models.shard_log_steps.records import (
    Leadership,
    Log,
    Node,
    State,
    common,
    cut,
    epoch_at,
    grown,
    head,
    highest_of,
    is_prefix,
    length,
)


def _others(model: ShardLogSteps, _: State) -> list[tuple[int, ...]]:
    """Every set of nodes that may have been fenced beside a leader."""
    nodes = range(model.nodes)
    return [some for size in range(model.nodes) for some in combinations(nodes, size)]


class ShardLogSteps(Model[State]):
    """A shard whose ensemble stays: what one node after the other does, and what it needs for it.

    The operator is not in it: a node may be fenced in any epoch, and one of an epoch's fenced may lead if it
    names a majority that was fenced and none of which has a higher head. Messages arrive late, twice or
    never. Batches, repeated entries and beats are what the steps of this model have in common.
    """

    name = "shard-log-steps"
    state_type = State
    may_end = True
    auxiliary = ("committed", "restarts", "fences", "acks")
    nodes = parameter(3, least=1, most=12, what="nodes of the ensemble")
    entries = parameter(1, least=0, most=100_000_000, what="entries of a log at most")
    epochs = parameter(2, least=1, most=1_000_000, what="the last epoch")
    founded = parameter(1, least=0, most=1, what="1: all are members from the beginning")
    most_restarts = parameter(0, least=0, most=1_000_000, what="crashes at most")
    Nodes = numbered("nodes", "n")
    Epochs = chosen(lambda model, _: range(1, model.epochs + 1), "e")
    AnyEpochs = chosen(lambda model, _: range(model.epochs + 1), "e")
    Offsets = chosen(lambda model, _: range(model.entries + 1), "at ")
    Others = chosen(_others)
    Whole = chosen(lambda _, s: (False, True))  # noqa: ARG005
    Back = chosen(lambda model, s: (False, True) if s.restarts < model.most_restarts else ())

    def initial(self) -> Iterator[State]:
        start = State((Node(member=bool(self.founded)),) * self.nodes)
        yield led(self, start, self.script) if self.script else start

    @property
    def majority(self) -> int:
        """Of the ensemble."""
        return self.nodes // 2 + 1

    def put(self, s: State, n: int, node: Node, **rest: Any) -> State:
        """The state with one node replaced; a follower acknowledges what it has on disk."""
        acks = s.acks
        if node.status == "follower" and self.counts(s, node):
            known = max((at for e, m, at in acks if (e, m) == (node.epoch, n)), default=-1)
            if node.durable > known:
                old = {(node.epoch, n, known)}
                acks = (acks - old) | {(node.epoch, n, node.durable)}
        return s.but(node=(*s.node[:n], node, *s.node[n + 1 :]), acks=acks, **rest)

    def counts(self, s: State, follower: Node) -> bool:
        """An acknowledgement names an entry: a leader takes no account of one that it does not have."""
        log = self.leadership(s, follower.epoch).log
        return is_prefix(cut(follower.log, follower.durable), log)

    def leadership(self, s: State, epoch: int) -> Leadership:
        """Of this epoch; without one nothing comes of it."""
        found = [each for each in s.leaderships if each.epoch == epoch]
        require(found)
        return found[0]

    def changed(self, s: State, new: Leadership) -> tuple[Leadership, ...]:
        """The leaderships with one replaced or added."""
        rest = [each for each in s.leaderships if each.epoch != new.epoch]
        return tuple(sorted((*rest, new), key=lambda each: each.epoch))

    # elections

    @action(n=Nodes, epoch=Epochs)
    def fence(self, s: State, n: int, epoch: int) -> State:
        """What is not durable was never acknowledged: it is given up, so that the head stays the head."""
        me = s.node[n]
        require(epoch > me.epoch)
        log = cut(me.log, me.durable)
        fences = s.fences | {(epoch, n, *head(log))} if me.member else s.fences
        fenced = me.but(status="fenced", epoch=epoch, may_lead=True, log=log)
        return self.put(s, n, fenced, fences=fences)

    @action(n=Nodes, others=Others)
    def become_leader(self, s: State, n: int, others: tuple[int, ...]) -> State:
        me = s.node[n]
        require(n not in others and me.status == "fenced" and me.may_lead and me.member)
        require(all(each.epoch != me.epoch for each in s.leaderships))
        heads = {m: (e, at) for epoch, m, e, at in sorted(s.fences) if epoch == me.epoch}
        members = [m for m in others if m in heads]
        require(len(members) + 1 >= self.majority)
        require(all(self.is_not_above(heads[m], me.log) for m in members))
        begun = Leadership(me.epoch, n, me.log, me.log, told=me.commit)
        leader = me.but(status="leader", may_lead=False)
        return self.put(s, n, leader, leaderships=self.changed(s, begun))

    def is_not_above(self, other: tuple[int, int], log: Log) -> bool:
        """Whether somebody's head is not higher than that of a log."""
        return other <= head(log)

    @action(n=Nodes)
    def abdicate(self, s: State, n: int) -> State:
        """It has heard of a higher epoch, or something is wrong with it: no leader has to go on."""
        me = s.node[n]
        require(me.status == "leader")
        return self.put(s, n, me.but(status="fenced", may_lead=False))

    # entries

    @action(n=Nodes, last=Offsets)
    def write(self, s: State, n: int, last: int) -> State:
        me = s.node[n]
        require(me.status == "leader" and last > length(me.log))
        own = self.leadership(s, me.epoch)
        log = grown(me.log, me.epoch, last)
        return self.put(s, n, me.but(log=log), leaderships=self.changed(s, own.but(log=log)))

    @action(n=Nodes, epoch=Epochs, last=Offsets)
    def append(self, s: State, n: int, epoch: int, last: int) -> State:
        """Entries of a leader, or its beat, reach who has a beginning of its log."""
        me, their = s.node[n], self.leadership(s, epoch)
        require(epoch >= me.epoch and their.leader != n)
        require(self.may_take(me, their.log))
        require(length(me.log) <= last <= length(their.log))
        follower = me.but(status="follower", epoch=epoch, may_lead=False, log=cut(their.log, last))
        return self.put(s, n, follower)

    def may_take(self, me: Node, log: Log) -> bool:
        """Whether a follower's log can be gone on with."""
        return is_prefix(me.log, log)

    @action(n=Nodes, last=Offsets)
    def sync(self, s: State, n: int, last: int) -> State:
        me = s.node[n]
        require(me.durable < last <= length(me.log))
        return self.put(s, n, me.but(durable=last))

    @action(n=Nodes, keep=Offsets)
    def truncate(self, s: State, n: int, keep: int) -> State:
        """A late follower is cut back to the leader's highest entry of its own last epoch or before.

        If it has no entry of that epoch, but more of an earlier one, it may keep some that are not the
        leader's. It then counts for nothing, and is cut again, until both share an entry. The request names
        the head that it is for: a head that the leader does not have.
        """
        me = s.node[n]
        require(self.may_be_cut(me))
        their = self.leadership(s, me.epoch)
        require(their.leader != n and not self.is_shared(me, their))
        point = highest_of(their.elected, head(me.log)[0])
        own = highest_of(me.log, point[0])
        require(keep == min(point[1], own[1]) and keep >= me.commit)
        cut_back = me.but(
            status="follower",
            may_lead=False,
            log=cut(me.log, keep),
            durable=min(me.durable, keep),
        )
        return self.put(s, n, cut_back)

    def may_be_cut(self, me: Node) -> bool:
        """Whoever does not lead: who follows with entries that are not the leader's is cut again."""
        return me.status != "leader"

    def is_shared(self, me: Node, their: Leadership) -> bool:
        """Whether a log ends in an entry that the leader has."""
        return is_prefix(me.log, their.log)

    @action(n=Nodes, last=Offsets, whole=Whole)
    def install(self, s: State, n: int, last: int, whole: bool) -> State:
        """A snapshot of what a leader has committed takes the place of a log that does not reach as far.

        Who is not a member has promised nothing, and may become less. It is a member again if the snapshot
        reaches what was committed in the epoch that it was fenced in.
        """
        me = s.node[n]
        their = self.leadership(s, me.epoch)
        require(their.leader != n and me.status != "leader" and last <= their.told)
        require(common(me.log, their.log) < last or not me.member)
        require(whole if me.member else not whole or self.reaches(me, their, last))
        installed = me.but(
            member=whole, log=cut(their.log, last), durable=last, commit=max(me.commit, last)
        )
        return self.put(s, n, installed)

    def reaches(self, me: Node, their: Leadership, last: int) -> bool:
        """Whether everything up to here has all that this node may ever have acknowledged."""
        return last > 0 and epoch_at(their.log, last) >= me.epoch

    @action(n=Nodes)
    def join(self, s: State, n: int) -> State:
        """A shard is founded with nodes that have nothing; later one is a member when it has all again."""
        me = s.node[n]
        require(not me.member)
        if not self.is_fresh(s, n):
            require(me.status == "follower" and self.counts(s, me))
            their = self.leadership(s, me.epoch)
            require(self.reaches(me, their, min(their.told, me.durable)))
        return self.put(s, n, me.but(member=True))

    def is_fresh(self, s: State, n: int) -> bool:
        """It has nothing, and has never acknowledged anything."""
        return not s.node[n].log and all(m != n or not at for _, m, at in s.acks)

    # counting

    @action(n=Nodes, upto=Offsets)
    def commit(self, s: State, n: int, upto: int) -> State:
        me = s.node[n]
        require(me.status == "leader" and me.commit < upto <= length(me.log))
        require(self.may_commit(me, upto) and self.is_held(s, n, upto))
        own = self.leadership(s, me.epoch)
        log = cut(me.log, upto)
        longest = log if length(log) > length(s.committed) else s.committed
        told = self.changed(s, own.but(told=upto))
        return self.put(s, n, me.but(commit=upto), leaderships=told, committed=longest)

    def is_held(self, s: State, n: int, upto: int) -> bool:
        """Whether a majority has all of a leader's log up to here."""
        me = s.node[n]
        votes = sum(e == me.epoch and at >= upto for e, m, at in s.acks if m != n)
        return votes + (me.durable >= upto) >= self.majority

    def may_commit(self, me: Node, upto: int) -> bool:
        """Entries of earlier epochs are committed by one of this epoch, never by themselves."""
        return epoch_at(me.log, upto) == me.epoch

    @action(n=Nodes, upto=Offsets)
    def learn_commit(self, s: State, n: int, upto: int) -> State:
        me = s.node[n]
        require(me.status == "follower" and me.commit < upto)
        their = self.leadership(s, me.epoch)
        require(upto <= min(their.told, common(me.log, their.log)))
        return self.put(s, n, me.but(commit=upto))

    @action(n=Nodes, epoch=AnyEpochs, last=Offsets, upto=Offsets, whole=Back)
    def restart(self, s: State, n: int, epoch: int, last: int, upto: int, whole: bool) -> State:
        """Of what was not durable any beginning may have been; what was committed is learnt again.

        A higher epoch may have been on its way to the disk, and that it was founded: nobody was told. Who
        restarts is fenced, and says so when it is asked in this epoch.
        """
        me = s.node[n]
        require(whole == me.member or (whole and self.is_fresh(s, n)))
        require(s.restarts < self.most_restarts and epoch >= me.epoch)
        require(me.durable <= last <= length(me.log) and upto <= min(me.commit, last))
        log = cut(me.log, last)
        back = me.but(epoch=epoch, status="fenced", member=whole, may_lead=False, log=log)
        back = back.but(durable=last, commit=upto)
        fences = s.fences | {(epoch, n, *head(log))} if whole and epoch else s.fences
        return self.put(s, n, back, fences=fences, restarts=s.restarts + 1)

    # what must hold

    @invariant
    def no_log_divergence(self, s: State) -> bool:
        """What a node takes for committed is a beginning of what was committed."""
        return all(is_prefix(cut(one.log, one.commit), s.committed) for one in s.node)

    @invariant
    def no_loss_of_confirmed_write(self, s: State) -> bool:
        """Whoever leads the newest epoch had all that was committed before when it was elected."""
        if not s.leaderships:
            return True
        newest = s.leaderships[-1]
        return is_prefix(s.committed, newest.log)

    @invariant
    def followers_agree(self, s: State) -> bool:
        """What a follower has acknowledged to the newest leader is what that leader has."""
        if not s.leaderships:
            return True
        newest = s.leaderships[-1]
        return all(
            common(s.node[n].log, newest.log) >= at
            for epoch, n, at in s.acks
            if epoch == newest.epoch == s.node[n].epoch and self.is_counted(newest, n)
        )

    def is_counted(self, leadership: Leadership, n: int) -> bool:  # noqa: ARG002
        """Whether a leader relies on what this node has."""
        return True

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.shard_log_steps.variants import step_variants

        return step_variants()
