"""Replicas at one checkpoint have one state. If two do not, one of them is broken, and nobody can tell which.

The id of a checkpoint rides on pings, commits and acknowledgements. A replica that hears of another id for
its own checkpoint stops and says so, before the difference reaches a client: that is a fault in Motet, in
the state machine or in the memory of a machine, and no protocol mends it.
"""

from __future__ import annotations

from motet.core.vsr.context import Core
from motet.core.vsr.messages import Commit, Ping, PrepareOk
from motet.core.vsr.state import Status

Witness = Ping | Commit | PrepareOk
WITNESSES = (Ping, Commit, PrepareOk)


def compare_checkpoints(core: Core, message: Witness) -> None:
    """Stop if the sender has another state at our checkpoint."""
    checkpoint_op = core.checkpoint_op
    if message.checkpoint_op != checkpoint_op or checkpoint_op == 0 or core.is_syncing:
        return
    if message.checkpoint_id != core.checkpoint_id:
        where = f"the checkpoint at op {core.checkpoint_op}"
        core.state.status = Status.REFUSED
        core.state.refusal = f"{where} is another on replica {message.replica}"
        core.note("diverged", core.state.refusal)
