"""Writes docs/reference/shard-log.md from the code: who says what to whom, and what an election decides.

python -m tools.shard_log_reference
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import cast

from motet.core.machine import Message
from motet.core.metadata import messages as metadata_messages
from motet.core.operator.ensembles import fencing_ensemble, final_ensemble, majority
from motet.core.shardlog import messages as shard_messages
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams import cluster_messages as operator_messages
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import Epoch, NodeId, ShardName

PAGE = Path(__file__).parents[1] / "docs/reference/shard-log.md"

PAGE_TEXT = """# The shard log: messages and decisions

Who says what to whom, as the code has it. Messages about a shard carry the names of the source text; each has
the fields `shard` and `epoch` besides those that are listed.

{shard}

`PieceRequest`, `DeleteShardRequest`, their answers and `Refused` are ours, and so are the answers of nodes
that the specification leaves out.

## The operator, nodes and clients

{operator}

## The operator and the keeper

An operator reaches the keeper through its own node, as every core does. Every write names the version that
it replaces.

{metadata}

## Whom an election asks, and whom it may choose

An ensemble of n1, n2 and n3 with a change that has stalled. A majority of the fencing ensemble has to answer;
only members count, which a node that has lost its disk is not. The leader is the one with the highest head in
the final ensemble, and is told that ensemble's size as its replication factor.

{decisions}
"""

Reference = tuple[tuple[type[Message], str, str], ...]


def message_table(reference: Reference, hidden: tuple[str, ...] = ()) -> list[str]:
    """A row of Markdown per message, in the order of the reference."""
    rows = ["| message | from | to | fields | what it says |", "|---|---|---|---|---|"]
    for kind, sender, receiver in reference:
        names = [name for name in kind.__struct_fields__ if name not in hidden]
        fields = ", ".join(f"`{name}`" for name in names)
        doc = inspect.getdoc(kind) or ""
        says = " ".join(doc.split("\n\n", 1)[0].split())
        rows.append(f"| `{kind.__name__}` | {sender} | {receiver} | {fields} | {says} |")
    return rows


def decision_table() -> list[str]:
    """What is fenced and what may lead, for each change that can have stalled."""
    rows = [
        "| stalled | fencing ensemble | majority | final ensemble | it is |",
        "|---|---|---|---|---|",
    ]
    changes: list[tuple[ReconfigurationOp, str | None, str | None]] = [
        (ReconfigurationOp.NODE_SWAP, "n3", "n4"),
        (ReconfigurationOp.EXPAND, None, "n4"),
        (ReconfigurationOp.CONTRACT, "n3", None),
    ]
    for phase in ReconfigurationPhase:
        for op, old, new in changes:
            metadata = _stalled(op, phase, old, new)
            fencing, final = fencing_ensemble(metadata), final_ensemble(metadata)
            outcome = "completed" if final != metadata.ensemble else "dropped"
            if outcome == "dropped" and phase is ReconfigurationPhase.COMMIT:
                outcome = "rolled back"
            rows.append(
                f"| `{op.value}` in `{phase.value}` | {' '.join(fencing)} | {majority(len(fencing))}"
                f" | {' '.join(final)} | {outcome} |"
            )
    return rows


def _stalled(
    op: ReconfigurationOp, phase: ReconfigurationPhase, old: str | None, new: str | None
) -> ShardMetadata:
    ensemble = (NodeId("n1"), NodeId("n2"), NodeId("n3"))
    old_node = None if old is None else NodeId(old)
    new_node = None if new is None else NodeId(new)
    change = Reconfiguration(op, phase, old_node, new_node, 3)
    status = ShardStatus.RECONFIGURATION
    return ShardMetadata(ShardName("s.0"), Epoch(2), status, None, ensemble, 3, change)


def page() -> str:
    """The whole page."""
    shard = cast("Reference", shard_messages.REFERENCE)
    return PAGE_TEXT.format(
        shard="\n".join(message_table(shard, hidden=("shard", "epoch"))),
        operator="\n".join(message_table(cast("Reference", operator_messages.REFERENCE))),
        metadata="\n".join(message_table(cast("Reference", metadata_messages.REFERENCE))),
        decisions="\n".join(decision_table()),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
