"""The birth of a shard: its first entry is above every clock that was handed out before.

Somebody may have read the feed of all streams up to a clock. A new stream with changes below it would be
overlooked. So before a leader without a log is told to lead, all data nodes are asked for the highest clock
that they know of from a log, and it is told the highest of all.

V1  Every clock that was handed out is in an entry that a majority of an ensemble has. So it is known when a
    majority of each ensemble has answered, to a heartbeat that was sent after the shard came to be known. A
    node that has lost its disk does not count: what it had acknowledged is gone with it.
    What is known for one shard is known for all that came to be known before it, as long as no other shard
    does so: those of one stream are not looked at one by one.
V2  A shard that has lost its majority does not keep streams from being created for ever: after a while those
    are believed that live.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.operator.context import Core
from motet.core.operator.state import NodeState, ShardControl
from motet.core.shardlog.messages import RECOVERING
from motet.core.streams.cluster_messages import Heartbeat, ShardStatus
from motet.ids import ShardName, StreamName


def control(core: Core, shard: ShardName, stream: StreamName) -> ShardControl:
    """A shard that has come to be known."""
    core.state.created_round = 0
    return ShardControl(shard, stream, creation_round=core.state.round + 1, since_ns=core.now_ns)


def ask(core: Core) -> None:
    """Ask all data nodes how they are."""
    state = core.state
    state.round += 1
    seal = tuple(
        shard
        for shard, each in state.shards.items()
        if (definition := state.definitions.get(each.stream)) is not None
        and definition.value.is_deleted
    )
    message = Heartbeat(state.round, state.clock, seal, state.clock_visibility, state.found)
    for node in state.nodes.values():
        if node.has_data:
            core.send(node.id, message)


def may_begin(core: Core, control: ShardControl) -> bool:
    """Whether all clocks are known that were handed out before the shard came to be known."""
    state = core.state
    for node in state.nodes.values():
        if node.has_data and not node.is_dead and node.round < control.creation_round:
            return False
    if core.now_ns - control.since_ns >= core.config.creation_ms * NS_PER_MS:
        return True  # V2
    if control.creation_round <= state.created_round:
        return True
    unknown = [
        other
        for other in state.shards.values()
        if other is not control and not _is_known(core, other, control.creation_round)
    ]
    if not unknown:
        state.created_round = control.creation_round
    return not unknown


def _is_known(core: Core, other: ShardControl, since_round: int) -> bool:
    """V1, for one shard. One that is new has handed out nothing, and one that is deleted has no readers.

    Nor has one that was founded with the new shard, or after it, handed out anything before.
    """
    known = other.metadata
    if known is None or known.is_new or known.status is ShardStatus.DELETING:
        return True
    if other.is_founded and other.creation_round >= since_round:
        return True
    told = [node for node in known.ensemble if _has_told(core.node(node), other.shard, since_round)]
    return 2 * len(told) > len(known.ensemble)


def _has_told(node: NodeState | None, shard: ShardName, since_round: int) -> bool:
    if node is None or not node.is_alive or node.round < since_round:
        return False
    report = node.reports.get(shard)
    return report is not None and report.is_whole and report.status != RECOVERING
