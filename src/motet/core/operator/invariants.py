"""What must hold of an operator after each step; the names are those of its essay."""

from __future__ import annotations

from motet.core.machine import Violation
from motet.core.operator.context import Core
from motet.core.operator.state import Phase, ShardControl
from motet.core.streams.cluster_messages import ShardMetadata


def invariants(core: Core) -> list[Violation]:
    """What does not hold."""
    state, found = core.state, []
    for control in state.shards.values():
        if not state.is_active and control.phase is not Phase.LOADING:
            found.append(Violation("O1", f"{control.shard} is in {control.phase.value}"))
        if control.metadata is not None and not is_legal(control.metadata):
            found.append(Violation("O2", f"{control.metadata}"))
        if state.is_active and not _is_consistent(control):
            found.append(Violation("O3", f"{control.shard} is in {control.phase.value}"))
    if len(state.waiting) > core.config.requests_max:
        found.append(Violation("O4", f"{len(state.waiting)} requests wait"))
    return found


def is_legal(metadata: ShardMetadata) -> bool:
    """LegalLeaderAndEnsemble, and that nobody is in and out at once."""
    ensemble = metadata.ensemble
    return (
        (metadata.leader is None or metadata.leader in ensemble)
        and metadata.replication_factor == len(ensemble) == len(dict.fromkeys(ensemble))
        and not any(node in ensemble for node in metadata.removed_nodes)
    )


def _is_consistent(control: ShardControl) -> bool:
    if control.phase is Phase.WRITING:
        return control.writing is not None and control.call is not None
    if control.phase in (Phase.LOADING, Phase.FORGETTING):
        return True
    return control.writing is None and control.metadata is not None
