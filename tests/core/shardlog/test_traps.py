"""The traps in the text and its model: put back one by one, each is found by a golden script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from motet.core.shardlog import (
    alignment,
    applying,
    fencing,
    follower,
    leader,
    quorum,
    reconfiguration,
    recovery,
    replica,
    storage,
)
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import NO_ENTRY, EpochRuns
from motet.core.shardlog.messages import FenceRequest, SnapshotResponse, TruncateRequest
from motet.core.shardlog.replica import HANDLERS
from motet.core.shardlog.state import Status
from motet.errors import StepRaised
from motet.ids import Offset
from motet.testing.scenario import run_scenario

SCRIPTS = Path(__file__).parents[2] / "scenarios" / "shardlog"
Patch = Callable[[pytest.MonkeyPatch], None]


def _differs(script: str) -> bool:
    """Whether something else happens than the script says, or an invariant breaks."""
    try:
        return not run_scenario(SCRIPTS / f"{script}.txt").passed
    except StepRaised:
        return True


def _commit_index_falls(patch: pytest.MonkeyPatch) -> None:
    def advance(core: Core) -> None:
        state = core.state
        positions = [each.confirmed for each in state.cursors.values() if each.is_attached]
        positions.append(state.log.durable)
        state.commit_index = quorum.committed(
            positions, state.replication_factor, state.epoch, state.log.runs
        )

    patch.setattr(leader, "advance_commit", advance)


def _no_barrier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconfiguration, "append_barrier", lambda core: core.state.log.head)


def _answers_in_the_old_epoch(patch: pytest.MonkeyPatch) -> None:
    right = follower._follow

    def follow(core, sender, message):  # type: ignore[no-untyped-def]
        before = core.state.epoch
        right(core, sender, message)
        core.state.epoch = core.state.epoch_durable = before

    patch.setattr(follower, "_follow", follow)


def _cut_to_the_own_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        quorum,
        "truncation_point",
        lambda runs, head: head if runs.has(head) or head < runs.head else runs.head,
    )


def _direct_commit_of_old_epochs(patch: pytest.MonkeyPatch) -> None:
    def committed(positions, factor, _epoch, runs):  # type: ignore[no-untyped-def]
        offset = quorum.held_by_majority(positions, factor)
        return runs.id_at(offset) if offset >= runs.base.offset else NO_ENTRY

    patch.setattr(quorum, "committed", committed)


def _gap_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochRuns, "has", lambda *_: True)
    patch.setattr(follower, "_fits", lambda *_: True)


def _old_leader_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader, "abdicate", lambda *_: None)


def _equal_fence_is_taken(patch: pytest.MonkeyPatch) -> None:
    right = fencing.on_fence_request

    def fence(core, sender, message):  # type: ignore[no-untyped-def]
        if message.epoch == core.state.epoch:
            core.state.stop_leading()
            core.state.status = Status.FENCED
        right(core, sender, message)

    handlers = dict(HANDLERS)
    handlers[FenceRequest] = fence
    patch.setattr(replica, "HANDLERS", handlers)


def _serves_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "is_serving", property(lambda core: core.is_leader))


def _wiped_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("motet.core.shardlog.shards.Shards._is_for_this_life", lambda self, message: True)


def _trims_beyond_commit(patch: pytest.MonkeyPatch) -> None:
    def wanted(core: Core, log: object) -> Offset:
        return Offset(core.state.log.head.offset)

    patch.setattr(applying, "_wanted_first", wanted)
    patch.setattr(applying, "_safe_first", lambda state: state.log.head.offset)


def _answers_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "newest_meta", lambda core: None)


def _leads_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    right = recovery._finish

    def finish(core: Core) -> None:
        right(core)
        core.state.may_lead = True

    patch.setattr(recovery, "_finish", finish)


def _old_factor_after_expand(patch: pytest.MonkeyPatch) -> None:
    right = reconfiguration._commit

    def commit(core, message):  # type: ignore[no-untyped-def]
        factor = core.state.replication_factor
        right(core, message)
        core.state.replication_factor = factor

    patch.setattr(reconfiguration, "_commit", commit)


def _contract_without_looking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconfiguration, "_is_safe", lambda *_: True)


def _old_node_counts(patch: pytest.MonkeyPatch) -> None:
    from motet.core.shardlog.state import Cursor, CursorState

    patch.setattr(Cursor, "is_attached", property(lambda each: each.state is CursorState.ATTACHED))


def _cut_once(patch: pytest.MonkeyPatch) -> None:
    right = alignment._place

    def place(core, cursor, head):  # type: ignore[no-untyped-def]
        if cursor.truncate_from is not None and not core.state.log.runs.has(head):
            alignment.lose(core, cursor, "was cut to what is not ours")
        else:
            right(core, cursor, head)

    patch.setattr(alignment, "_place", place)


def _cut_wherever_it_ends(patch: pytest.MonkeyPatch) -> None:
    def truncate(core, sender, message):  # type: ignore[no-untyped-def]
        if core.state.status is Status.FENCED:
            message = msgspec.structs.replace(message, from_index=core.state.log.head)
        follower.on_truncate_request(core, sender, message)

    handlers = dict(HANDLERS)
    handlers[TruncateRequest] = truncate
    patch.setattr(replica, "HANDLERS", handlers)


def _who_lost_its_log_takes_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follower, "_may_follow", lambda *_: True)


def _one_loss_is_like_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "loss", property(lambda core: 0 if core.state.is_member else 1))


def _any_answer_to_a_snapshot_counts(patch: pytest.MonkeyPatch) -> None:
    def answered(core, sender, message):  # type: ignore[no-untyped-def]
        now = core.state.cursors[sender].attached_round
        message = msgspec.structs.replace(message, round=now)
        alignment.on_snapshot_response(core, sender, message)

    handlers = dict(HANDLERS)
    handlers[SnapshotResponse] = answered
    patch.setattr(replica, "HANDLERS", handlers)


def _forgets_what_it_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("motet.core.shardlog.shards.Shards._remember", lambda *_: None)


TRAPS: dict[str, tuple[Patch, str]] = {
    "commit index falls": (_commit_index_falls, "commit_index_never_falls"),
    "no barrier in a new epoch": (_no_barrier, "contract_of_an_idle_shard"),
    "answers in the old epoch": (_answers_in_the_old_epoch, "first_answer_in_a_new_epoch_counts"),
    "cut to the leader's own head": (_cut_to_the_own_head, "same_epoch_longer_follower"),
    "direct commit of old epochs": (
        _direct_commit_of_old_epochs,
        "no_direct_commit_of_an_old_epoch",
    ),
    "gap is not seen": (_gap_is_not_seen, "gap_is_refused"),
    "old leader goes on": (_old_leader_goes_on, "old_leader_abdicates"),
    "fence of an equal epoch is taken": (_equal_fence_is_taken, "fenced_node_refuses"),
    "leader serves at once": (_serves_at_once, "leader_serves_after_its_log_is_committed"),
    "wiped node takes any fence": (_wiped_counts_at_once, "wiped_follower_gets_a_snapshot"),
    "trimmed beyond commit": (_trims_beyond_commit, "log_is_trimmed_never_beyond_commit"),
    "answers before it is durable": (_answers_before_it_is_durable, "epoch_survives_a_crash"),
    "leads an epoch twice": (_leads_an_epoch_twice, "restarted_leader_does_not_lead_on"),
    "old factor after an expansion": (_old_factor_after_expand, "expand"),
    "contracts without looking": (_contract_without_looking, "contract_waits_until_it_is_safe"),
    "cut once": (_cut_once, "two_divergent_runs_are_cut"),
    "cut wherever the log ends": (_cut_wherever_it_ends, "late_truncate_cuts_nothing"),
    "entries for who has lost its log": (_who_lost_its_log_takes_entries, "late_founder_follows"),
    "one loss is like another": (_one_loss_is_like_another, "late_snapshot_of_an_earlier_loss"),
    "any answer to a snapshot counts": (
        _any_answer_to_a_snapshot_counts,
        "late_answer_to_a_snapshot",
    ),
    "forgets what it left": (_forgets_what_it_left, "late_orders_after_leaving"),
    "old node still counts": (_old_node_counts, "contract_waits_until_it_is_safe"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_that_is_put_back_is_found(trap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put_back, script = TRAPS[trap]
    assert not _differs(script), "without the trap it happens as the script says"
    put_back(monkeypatch)
    assert _differs(script)
