"""A shard's metadata in the store: written by compare-and-set, and read again when in doubt.

W1  Every write names the version that it replaces. What a write allows is sent after its ``Done``.
W2  An epoch belongs to the operator whose write raised it, and to this life of it. So a write that raised the
    epoch and whose outcome is unknown is not ours, though it may stand there: another operator can have
    written the very same. One that left the epoch alone can only be ours.
W3  What stands there and is not ours is resolved by an election in a higher epoch: at once after a start,
    or if nobody moves; if somebody else is at it, not before it has stood still for a while.
W4  Lives of nodes that are named in fences were known before the metadata was last seen (``incarnations``):
    who has forgotten a later epoch than ours cannot be fenced in ours, because we would have seen that epoch.
W5  A write of another operator may arrive after we have read the shard, or written it, and then we know
    nothing of it until we write there again: one of the operator before us, or of one that took itself for
    the active one beside us, and was heard of by the maps that it gave to nodes. So a shard that we have
    taken over is read once more when such a write can hardly be on its way any longer; and all are when we
    have met the maps of another.
W6  An epoch that a node knows was in the store. If it is not there any more, the shard was deleted and
    created again, and what the node has promised is of the first one: the next election is above that.
"""

from __future__ import annotations

from motet.core.metadata.messages import Get
from motet.core.metadata.paths import shard_path
from motet.core.operator.context import Core
from motet.core.operator.state import CallKind, Phase, ShardControl, StoreCall
from motet.core.streams.cluster_messages import ShardMetadata, ShardStatus, encode_metadata
from motet.ids import Epoch, NodeId, RequestId
from motet.limits import epoch_step_max


def save(core: Core, control: ShardControl, metadata: ShardMetadata, after: Phase) -> None:
    """Write it if nobody else has been there (W1), then go on with a phase."""
    assert metadata.epoch >= control.epoch, "an epoch never falls"
    assert metadata.replication_factor == len(metadata.ensemble), "LegalLeaderAndEnsemble"
    assert metadata.leader is None or metadata.leader in metadata.ensemble, "LegalLeaderAndEnsemble"
    core.enter(control, Phase.WRITING)
    control.writing, control.after_write = metadata, after
    call = _call(core, control, CallKind.PUT_SHARD)
    path = shard_path(control.shard)
    control.call = core.put(path, encode_metadata(metadata), control.version, call)


def on_saved(core: Core, control: ShardControl, call: StoreCall, version: int) -> None:
    """It is written, and ours."""
    assert control.writing is not None
    control.metadata, control.version = control.writing, version
    control.writing = control.call = None
    control.incarnations = dict(call.incarnations)
    core.enter(control, control.after_write)


def forget(core: Core, control: ShardControl) -> None:
    """Delete the metadata of a shard that is nowhere any more."""
    assert control.version is not None
    core.enter(control, Phase.FORGETTING)
    call = _call(core, control, CallKind.FORGET_SHARD)
    control.call = core.delete(shard_path(control.shard), control.version, call)


def load(core: Core, control: ShardControl, *, after_ms: int = 0) -> None:
    """Find out what stands in the store; nothing is done about the shard before that."""
    core.enter(control, Phase.LOADING)
    control.call = None
    control.retry.next_ns = core.in_ms(after_ms)


def overtaken(core: Core, control: ShardControl, node: NodeId, epoch: Epoch) -> None:
    """A node knows a higher epoch (W6)."""
    core.note_shard("overtaken", control, f"{node} is in epoch {epoch}")
    near = Epoch(control.epoch + epoch_step_max // 2)  # what nodes of the shard can still take
    control.node_epoch = max(control.node_epoch, min(epoch, near))
    load(core, control)


def keep_loading(core: Core, control: ShardControl) -> None:
    if control.call is None and core.due(control.retry):
        control.call = _read(core, control)


def confirm(core: Core, control: ShardControl) -> None:
    """Ask whether the epoch still stands, to be able to name the present lives of nodes (W4)."""
    if not control.is_confirming and control.phase not in (Phase.LOADING, Phase.WRITING):
        control.is_confirming = True
        _read(core, control)


def on_confirmed(core: Core, control: ShardControl, call: StoreCall, version: int | None) -> None:
    """The answer to ``confirm``: go on if nothing has changed."""
    control.is_confirming = False
    if control.phase in (Phase.LOADING, Phase.WRITING, Phase.FORGETTING):
        return  # what was read may be from before or after
    if version == control.version:
        control.incarnations = dict(call.incarnations)
        control.retry.next_ns = core.now_ns  # whoever has begun a new life can be fenced now
        for join in control.joins.values():
            join.retry.next_ns = core.now_ns
    else:
        core.note_shard("overtaken", control)
        load(core, control)


def look_again(core: Core, control: ShardControl) -> None:
    """Once, if the shard was taken over, or another operator was at work beside us (W5)."""
    due_ns = control.look_again_ns
    if due_ns is not None and core.now_ns >= due_ns and not control.is_confirming:
        control.look_again_ns = None
        confirm(core, control)


def is_ours(control: ShardControl, found: ShardMetadata) -> bool:
    """Whether what stands there is certainly what we wrote last (W2)."""
    return found == control.writing and found.epoch == control.epoch


def is_unsettled(metadata: ShardMetadata) -> bool:
    return metadata.status in (ShardStatus.ELECTION, ShardStatus.RECONFIGURATION)


def _read(core: Core, control: ShardControl) -> RequestId:
    call = _call(core, control, CallKind.READ_SHARD)
    return core.read((Get(shard_path(control.shard)),), call)


def _call(core: Core, control: ShardControl, kind: CallKind) -> StoreCall:
    return StoreCall(kind, core.now_ns, about=control.shard, incarnations=core.incarnations())
