"""What a node would not do, and what follows from that."""

from __future__ import annotations

from motet.core.operator.context import Core
from motet.core.operator.elections import fail_election
from motet.core.operator.reconfigurations import on_step_refused
from motet.core.operator.state import RECONFIGURING, Phase, ShardControl
from motet.core.operator.writing import overtaken
from motet.core.shardlog.messages import BecomeLeaderRequest, Refusal, Refused
from motet.ids import NodeId


def on_refused(core: Core, control: ShardControl, sender: NodeId, message: Refused) -> None:
    """A node knows a higher epoch: so does the store. Else the step is tried again, or given up."""
    core.note_shard("refused", control, f"{sender} {message.request} {message.why.value}")
    if control.phase in (Phase.LOADING, Phase.WRITING, Phase.FORGETTING):
        return
    if message.why is Refusal.INVALID_EPOCH and message.node_epoch > control.epoch:
        overtaken(core, control, sender, message.node_epoch)
    elif control.phase in RECONFIGURING:
        on_step_refused(core, control, sender, message)
    elif _is_leader_to_be(control, sender) and message.request == BecomeLeaderRequest.__name__:
        fail_election(core, control, f"{sender} refuses to lead")


def _is_leader_to_be(control: ShardControl, node: NodeId) -> bool:
    choice = control.choice
    return control.phase is Phase.NOTIFY_LEADER and choice is not None and choice.leader == node
