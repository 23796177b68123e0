"""Replicas at one checkpoint have one state. If two do not, one of them is broken: the one in the minority
stops.

The id of a checkpoint is on pings, commits and acknowledgements. A difference is a fault in Motet, in the
state machine or in the memory of a machine, and no protocol repairs it. Who is wrong is a matter of numbers:

E1  A replica stops when a majority of all replicas says of its own checkpoint that it is another, and all of
    them the same one. Then those are the cluster: they go on without it, and what it would answer could be
    wrong.
E2  The word of one replica stops nobody. It is noted, and stands in the status, for as long as it is so.
E3  With two replicas, or a tie of four or six, nobody can tell. All go on, and each says loudly that they
    differ. To stop both would let one broken replica, or one wrong message, end a cluster that may be well;
    and to stop any one of them would be a guess. People have to look: which of them is right is not in the
    protocol.
"""

from __future__ import annotations

from motet.core.vsr.context import Core
from motet.core.vsr.messages import Commit, Ping, PrepareOk
from motet.core.vsr.state import Status

Witness = Ping | Commit | PrepareOk
WITNESSES = (Ping, Commit, PrepareOk)


def compare_checkpoints(core: Core, message: Witness) -> None:
    """Remember who has another state at our checkpoint; stop if they are a majority."""
    said = core.state.diverged
    checkpoint_op = core.checkpoint_op
    if message.checkpoint_op != checkpoint_op or checkpoint_op == 0 or core.is_syncing:
        return
    if message.checkpoint_id == core.checkpoint_id:
        if said:
            said.pop(message.replica, None)
        return
    claim = checkpoint_op, message.checkpoint_id
    if said.get(message.replica) == claim:
        return
    said[message.replica] = claim
    others = sorted(replica for replica, each in said.items() if each == claim)
    names = " ".join(str(replica) for replica in others)
    core.note("diverged", f"the checkpoint at op {checkpoint_op} is another on replica {names}")
    if len(others) >= core.quorums.majority:  # E1
        core.state.status = Status.REFUSED
        core.state.refusal = (
            f"the checkpoint at op {checkpoint_op} is another on replicas {names}, which are a majority:"
            " the state of this replica is wrong. Keep its files; the others go on without it"
        )


def divergence(core: Core) -> str:
    """Who has another state at our checkpoint, for the status; empty if nobody has."""
    here = core.checkpoint_op
    others = sorted(replica for replica, (op, _) in core.state.diverged.items() if op == here)
    names = " ".join(str(replica) for replica in others)
    return f"the checkpoint at op {here} is another on replica {names}" if others else ""
