"""A replica of a consensus cluster, as its driver hosts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.divergence import divergence
from motet.core.vsr.messages import PingClient, ReadBarrier, Request, VsrCall
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.core.vsr.state_machine import StateMachine
from motet.format.frame import FrameKind
from motet.ids import Op, ReplicaIndex
from motet.node.hosting import Hosting
from motet.ports.disk import Disk

VSR_MACHINE = "vsr"


def host_vsr(
    config: VsrConfig, own: ReplicaIndex, disk: Disk, machine: Callable[[], StateMachine]
) -> Hosting[Replica]:
    """This replica, with these files, over a new state machine for each incarnation."""
    return Hosting(
        name=VSR_MACHINE,
        kind=FrameKind.VSR,
        messages=VsrCall,
        machine=lambda: Replica(config, own, machine()),
        disk=disk,
        from_clients=frozenset((PingClient, Request, ReadBarrier)),
        serving=why_replica_does_not_serve,
        describe=describe_replica,
    )


def why_replica_does_not_serve(replica: Replica) -> str | None:
    """In which of its troubles it is; None for one that takes part in a view with its state at hand."""
    state = replica.core.state
    if state.status is Status.REFUSED:
        return state.refusal
    if state.status is not Status.NORMAL:
        return f"it is {state.status.value}"
    if state.restore is not None or replica.core.is_syncing:
        return "it reads its checkpoint"
    return None


def describe_replica(replica: Replica) -> Mapping[str, object]:
    """Where it is, and what it has lost and not got back yet."""
    core, state = replica.core, replica.core.state
    return {
        "replica": state.own,
        "status": state.status.value,
        "view": state.view,
        "is_primary": core.is_primary,
        "op": state.op,
        "commit_min": state.commit_min,
        "commit_max": state.commit_max,
        "checkpoint_op": core.checkpoint_op,
        "diverged": divergence(core),
        "sessions": len(state.sessions.by_client),
        "sessions_reserved": sum(one.is_reserved for one in state.sessions.by_client.values()),
        "prepares_faulty": sum(
            state.journal.is_faulty(Op(op)) for op in range(core.checkpoint_op + 1, state.op + 1)
        ),
        "replies_faulty": len(state.replies_faulty),
        "blocks_faulty": len(state.blocks_faulty),
        "is_disk_full": state.is_disk_full,
        "dropped": dict(state.counts),
    }
