"""Reading without writing: how new must a state be, so that a read of it is linearizable?

The primary takes its commit point when the question arrives, and asks all replicas, afterwards, whether this
is still the view. When a replication quorum says so, no later view can have begun before the question came:
its view change would have needed one of them. So nothing newer was committed, and a state that has applied
the commit point may be read. Questions that arrive while others are being asked go into the next round.

A primary that is new does not know how much of the log it took over was committed before. It takes all of
it for committed here.

B1  A round that counts for a question was begun after the question arrived.
"""

from __future__ import annotations

from motet.core.vsr.context import Core
from motet.core.vsr.messages import ConfirmView, ReadBarrier, ReadPoint, ViewConfirmed
from motet.core.vsr.state import WaitingRead
from motet.ids import Address, Op


def on_read_barrier(core: Core, message: ReadBarrier, asker: Address) -> None:
    state = core.state
    if not core.is_primary or not core.is_view_durable:
        core.drop("read_out_of_view")
        return
    if len(state.reads_waiting) >= core.config.queue_max * core.config.clients_max:
        core.drop("read_queue_full")
        return
    op = Op(max(state.commit_max, state.view_start_op))
    is_asking = bool(state.reads_waiting)
    state.reads_waiting.append(WaitingRead(asker, message.request, op, state.round + 1))
    if not is_asking:
        _begin_round(core)


def _begin_round(core: Core) -> None:
    core.state.round += 1
    core.state.confirmed = {core.own: core.state.round}
    ask_round(core)
    _answer(core)


def ask_round(core: Core) -> None:
    """Ask, or ask again."""
    state = core.state
    if state.reads_waiting:
        own, commit = core.own, state.commit_max
        core.broadcast(ConfirmView(core.config.cluster, own, state.view, state.round, commit))


def on_confirm_view(core: Core, message: ConfirmView) -> None:
    if core.is_backup and message.view == core.state.view and message.replica == core.primary:
        core.hear_commit(message.commit)
        own, view = core.own, core.state.view
        core.send(message.replica, ViewConfirmed(core.config.cluster, own, view, message.round))


def on_view_confirmed(core: Core, message: ViewConfirmed) -> None:
    if not core.is_primary or message.view != core.state.view:
        core.drop("view_confirmed_out_of_view")
        return
    if message.round == core.state.round:
        core.state.confirmed[message.replica] = message.round
        _answer(core)


def _answer(core: Core) -> None:
    """Enough have confirmed: answer those who asked before the round began (B1)."""
    state = core.state
    if len(state.confirmed) < core.quorums.replication or not state.reads_waiting:
        return
    waiting, state.reads_waiting = state.reads_waiting, []
    for read in waiting:
        if read.round <= state.round:
            point = ReadPoint(core.config.cluster, core.own, state.view, read.request, read.op)
            core.send_address(read.asker, point)
        else:
            state.reads_waiting.append(read)
    if state.reads_waiting:
        _begin_round(core)
