"""Leaving a view: only when enough replicas want to, so that one that hears nothing disturbs nobody.

A backup that hears nothing from its primary, a primary that abdicates, and a replica whose view change takes
too long, says ``start_view_change`` to all, again and again, until it hears its primary or the view changes.
It moves to the next view only when a view-change quorum wants to leave this one. One that can speak and not
hear gathers no quorum alone, and the others stay as they are.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.vsr.context import Core
from motet.core.vsr.messages import StartViewChange
from motet.core.vsr.state import Status
from motet.core.vsr.view_change import SILENCE, VOTE, enter_view_change
from motet.ids import View

votes_kept = 3
"""A vote counts for so many of its periods: who has stopped repeating it is content again."""


def watch_primary(core: Core) -> None:
    """The primary was heard: it may be silent for a while again."""
    take_vote_back(core)
    # Replicas lose patience one after the other, not all at once.
    patience_ms = core.config.timeouts.silence_ms
    core.timer(SILENCE, patience_ms + patience_ms * core.own // 10)


def take_vote_back(core: Core) -> None:
    """All is well again."""
    if core.state.votes.pop(core.own, None) is not None:
        core.no_timer(VOTE)


def on_silence(core: Core) -> None:
    """The primary was not heard for too long, or the view change has taken too long."""
    if core.is_backup or core.state.status is Status.VIEW_CHANGE:
        vote(core)


def vote(core: Core) -> None:
    """Say that we would rather leave, and go on saying so."""
    state = core.state
    if state.status not in (Status.NORMAL, Status.VIEW_CHANGE) or core.is_solo:
        return
    core.broadcast(StartViewChange(core.config.cluster, core.own, state.view))
    core.timer(VOTE, core.config.timeouts.start_view_change_ms)
    state.votes[core.own] = core.now.monotonic_ns
    _count_votes(core)


def on_start_view_change(core: Core, message: StartViewChange) -> None:
    state = core.state
    if message.view < state.view or state.status not in (Status.NORMAL, Status.VIEW_CHANGE):
        core.drop("start_view_change_out_of_view")
        return
    if message.view > state.view:
        # It got there with a quorum, and waits for us in a view that we have not heard of.
        enter_view_change(core, message.view)
    state.votes[message.replica] = core.now.monotonic_ns
    _count_votes(core)


def _count_votes(core: Core) -> None:
    kept_ns = votes_kept * core.config.timeouts.start_view_change_ms * NS_PER_MS
    votes = core.state.votes.values()
    fresh = sum(core.now.monotonic_ns - heard_ns <= kept_ns for heard_ns in votes)
    if fresh >= core.quorums.view_change:
        enter_view_change(core, View(core.state.view + 1))
