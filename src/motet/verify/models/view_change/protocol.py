"""Viewstamped Replication at a bounded size: normal operation, view change, start view, and bad disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

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
from motet.verify.models.view_change.records import (
    Decision,
    DoViewChange,
    Log,
    Replica,
    Slot,
    StartView,
    State,
    disk_at,
    header_at,
    ordered,
)


def _quorums_of_logs(model: ViewChange, s: State) -> list[tuple[DoViewChange, ...]]:
    """Every set of logs, one per replica, with which a new primary could decide."""
    found: list[tuple[DoViewChange, ...]] = []
    for view in range(1, model.views + 1):
        primary = view % model.replicas
        me = s.replica[primary]
        if me.view != view or me.status != "view_change":
            continue
        by_replica = [
            sorted(m for m in s.do_view_changes if m.view == view and m.replica == r)
            for r in range(model.replicas)
        ]
        others = [r for r in range(model.replicas) if r != primary and by_replica[r]]
        for count in range(model.view_change_quorum - 1, len(others) + 1):
            for some in combinations(others, count):
                found += product(by_replica[primary], *(by_replica[r] for r in some))
    return found


class ViewChange(Model[State]):
    """A primary orders ops and commits what a quorum has; the next one keeps them, on disks that fail.

    Messages are never taken back: they arrive late, twice or never. View, log_view and log are on disk before
    anything is said of them, so a restart loses only what nobody was told of. A replica may leave its view at
    any time (``start_view_change`` and its votes only say when). What it has prepared may become unreadable:
    it then neither has the op nor denies it. Headers survive, and there are no checkpoints.
    """

    name = "vsr-view-change"
    state_type = State
    may_end = True
    auxiliary = (
        *("committed", "faults", "restarts", "prepares", "prepare_oks"),
        *("do_view_changes", "start_views"),
    )
    replicas = parameter(3, least=1, most=6, what="replicas")
    ops = parameter(1, least=1, most=100_000, what="ops in a log at most")
    views = parameter(1, least=0, most=10_000, what="the last view")
    most_faults = parameter(1, least=0, most=3, what="prepares that become unreadable")
    most_restarts = parameter(0, least=0, most=1_000, what="crashes that lose what is not on disk")
    Replicas = numbered("replicas", "r")
    Ops = numbered("ops", "op")
    Heads = chosen(lambda model, _: range(model.ops + 1), "at ")
    Views = chosen(lambda model, _: range(1, model.views + 1), "v")
    Logs = chosen(_quorums_of_logs)
    Begun = chosen(lambda _, s: sorted(s.start_views))

    def prepare(self) -> None:
        replicas = self.replicas
        self.replication_quorum = 2 if replicas == 2 else min(3, -(-replicas // 2))
        self.nack_quorum = replicas - self.replication_quorum + 1
        self.view_change_quorum = 2 if replicas == 2 else self.nack_quorum

    def initial(self) -> Iterator[State]:
        start = State((Replica(),) * self.replicas, told=(0,) * (self.views + 1))
        yield led(self, start, self.script) if self.script else start

    def put(self, s: State, r: int, replica: Replica, **rest: object) -> State:
        """The state with one replica replaced."""
        return s.but(replica=(*s.replica[:r], replica, *s.replica[r + 1 :]), **rest)

    def is_primary(self, view: int, r: int) -> bool:
        """Whether a view is led by this replica."""
        return view % self.replicas == r

    def oks_of(self, r: int, me: Replica) -> frozenset[tuple[int, int, int]]:
        """What a replica acknowledges in its view: all that it has on disk."""
        return frozenset(
            (me.view, op, r) for op, slot in enumerate(me.log, start=1) if slot.disk == "written"
        )

    # normal operation

    @action(r=Replicas)
    def request(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(self.is_primary(me.view, r) and me.status == "normal" and len(me.log) < self.ops)
        log = (*me.log, Slot(me.view, "dirty"))
        return self.put(s, r, me.but(log=log), prepares=s.prepares | {(me.view, len(log))})

    @action(r=Replicas)
    def handle_prepare(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(not self.is_primary(me.view, r) and me.status == "normal")
        require((me.view, len(me.log) + 1) in s.prepares)
        return self.put(s, r, me.but(log=(*me.log, Slot(me.view, "dirty"))))

    @action(r=Replicas, number=Ops)
    def write_prepare(self, s: State, r: int, number: int) -> State:
        """A prepare reaches the disk: a new one, or one that was missing or damaged."""
        me = s.replica[r]
        require(number < len(me.log))
        slot = me.log[number]
        require(slot.disk != "written" and self.can_be_had(s, r, number + 1, slot.view))
        log = (*me.log[:number], Slot(slot.view, "written"), *me.log[number + 1 :])
        oks = s.prepare_oks
        if me.status == "normal":
            oks |= {(me.view, number + 1, r)}
        return self.put(s, r, me.but(log=log), prepare_oks=oks)

    def can_be_had(self, s: State, r: int, op: int, view: int) -> bool:
        """It is of the view whose log this is, so its sender had it; else from a replica that has it."""
        if view == s.replica[r].log_view:
            return True
        return any(
            header_at(one.log, op) == view and disk_at(one.log, op) == "written"
            for one in s.replica
        )

    @action(r=Replicas)
    def commit_op(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(self.is_primary(me.view, r) and me.status == "normal" and me.commit < len(me.log))
        op = me.commit + 1
        votes = sum((me.view, op, each) in s.prepare_oks for each in range(self.replicas))
        require(votes >= self.replication_quorum)
        told = (*s.told[: me.view], op, *s.told[me.view + 1 :])
        committed = s.committed | {(op, me.log[op - 1].view)}
        return self.put(s, r, me.but(commit=op), told=told, committed=committed)

    @action(r=Replicas, number=Ops)
    def learn_commit(self, s: State, r: int, number: int) -> State:
        me = s.replica[r]
        require(me.status == "normal" and me.commit <= number < len(me.log))
        require(number < s.told[me.view])
        return self.put(s, r, me.but(commit=number + 1))

    # the view changes

    @action(r=Replicas, view=Views)
    def start_view_change(self, s: State, r: int, view: int) -> State:
        me = s.replica[r]
        require(view > me.view)
        return self.put(s, r, me.but(view=view, status="view_change"))

    @action(r=Replicas)
    def do_view_change(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.status == "view_change")
        message = DoViewChange(me.view, r, me.log_view, me.log, me.commit)
        require(message not in s.do_view_changes)
        return s.but(do_view_changes=s.do_view_changes | {message})

    @action(logs=Logs)
    def become_primary(self, s: State, logs: Sequence[DoViewChange]) -> State:
        r = logs[0].view % self.replicas
        me = s.replica[r]
        decision = self.decide(logs)
        require(decision is not None)
        assert decision is not None
        log = self.installed(me.log, decision.headers)
        commit = max(me.commit, decision.commit)
        return self.put(s, r, Replica(me.view, me.view, "leading", log, commit))

    @action(r=Replicas)
    def start_view(self, s: State, r: int) -> State:
        """What is known to be committed is on other disks, and may still be on its way to this one."""
        me = s.replica[r]
        require(me.status == "leading")
        require(all(slot.disk == "written" for slot in me.log[me.commit :]))
        normal = me.but(status="normal")
        message = StartView(me.view, tuple(slot.view for slot in me.log), me.commit)
        return self.put(
            s,
            r,
            normal,
            start_views=s.start_views | {message},
            prepare_oks=s.prepare_oks | self.oks_of(r, normal),
        )

    @action(r=Replicas, message=Begun)
    def handle_start_view(self, s: State, r: int, message: StartView) -> State:
        me = s.replica[r]
        require(message.view >= me.view and not self.is_primary(message.view, r))
        require(message.view > me.view or me.status == "view_change")
        log = self.installed(me.log, message.headers)
        commit = max(me.commit, message.commit)
        normal = Replica(message.view, self.log_view_after(me, message), "normal", log, commit)
        return self.put(s, r, normal, prepare_oks=s.prepare_oks | self.oks_of(r, normal))

    def log_view_after(self, me: Replica, message: StartView) -> int:  # noqa: ARG002
        """It is that of the view whose log was taken over, durable before anything is acknowledged."""
        return message.view

    @action(r=Replicas, number=Ops)
    def corrupt(self, s: State, r: int, number: int) -> State:
        me = s.replica[r]
        require(s.faults < self.most_faults and number < len(me.log))
        require(me.log[number].disk == "written")
        slot = me.log[number].but(disk="faulty")
        log = (*me.log[:number], slot, *me.log[number + 1 :])
        return self.put(s, r, me.but(log=log), faults=s.faults + 1)

    @action(r=Replicas, head=Heads, commit=Heads)
    def restart(self, s: State, r: int, head: int, commit: int) -> State:
        """What is not written may be gone; nobody was told of it. What is committed is learnt again.

        A primary does not know what it had promised: it goes to the next view.
        """
        me = s.replica[r]
        require(s.restarts < self.most_restarts and head <= len(me.log))
        require(commit <= min(me.commit, head))
        require(all(slot.disk != "written" for slot in me.log[head:]))
        back = me.but(log=me.log[:head], commit=commit, is_back=True)
        if self.is_primary(me.view, r) and me.log_view == me.view:
            require(me.view < self.views)
            back = back.but(view=me.view + 1, status="view_change")
        return self.put(s, r, back, restarts=s.restarts + 1)

    def installed(self, log: Log, headers: Sequence[int]) -> Log:
        """The log with these headers: what was there under another header is not part of it."""
        return tuple(
            log[op] if op < len(log) and log[op].view == view else Slot(view, "dirty")
            for op, view in enumerate(headers)
        )

    # the decision

    def canonical(self, logs: Sequence[DoViewChange]) -> list[DoViewChange]:
        """The logs of the newest log_view: whatever was committed in it or before is in them."""
        newest = max(each.log_view for each in logs)
        return [each for each in ordered(logs) if each.log_view == newest]

    def denies(self, log: DoViewChange, op: int, header: int) -> bool:
        """Whether a replica has certainly never acknowledged this op."""
        if op > len(log.log) or header_at(log.log, op) != header:
            return True
        return disk_at(log.log, op) == "dirty"

    def decide(self, logs: Sequence[DoViewChange]) -> Decision | None:
        """The log of the new view, or nothing as long as an op can be neither kept nor cut."""
        canonical = self.canonical(logs)
        longest = max(canonical, key=lambda each: len(each.log)).log
        commit = max(each.commit for each in logs)
        if len(longest) < commit:
            return None
        head = commit
        for op in range(commit + 1, len(longest) + 1):
            header = longest[op - 1].view
            if sum(self.denies(each, op, header) for each in logs) >= self.nack_quorum:
                break
            if not self.can_be_given(logs, op, header):
                return None
            head = op
        return Decision(tuple(slot.view for slot in longest[:head]), commit)

    def can_be_given(self, logs: Sequence[DoViewChange], op: int, header: int) -> bool:
        """Whether one of them has it to give; without it, more logs are waited for."""
        return any(self.gives(each, op, header) for each in logs)

    def gives(self, log: DoViewChange, op: int, header: int) -> bool:
        """On its disk, or on its way there: it was received in the view whose log this is."""
        if header_at(log.log, op) != header:
            return False
        disk = disk_at(log.log, op)
        return disk == "written" or (disk == "dirty" and header == log.log_view)

    # what must hold

    @invariant
    def one_op_per_number(self, s: State) -> bool:
        """No two ops of one number are ever committed."""
        return len({op for op, _ in s.committed}) == len(s.committed)

    @invariant
    def committed_is_kept(self, s: State) -> bool:
        """Whoever leads a view has everything that was committed in the views before it."""
        newest = max((m.view for m in s.start_views), default=0)
        me = s.replica[newest % self.replicas]
        if me.log_view != newest or me.is_back:
            return True  # it has left that view, and its log is another
        return all(header_at(me.log, op) == view for op, view in s.committed)

    @invariant
    def commits_agree(self, s: State) -> bool:
        """What a replica takes for committed is."""
        return all(
            (op, one.log[op - 1].view) in s.committed
            for one in s.replica
            for op in range(1, min(one.commit, len(one.log)) + 1)
        )

    @invariant
    def log_reaches_commit(self, s: State) -> bool:
        """Nothing that is known to be committed is cut off a log."""
        return all(one.commit <= len(one.log) for one in s.replica)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.view_change.variants import view_change_variants

        return view_change_variants()
