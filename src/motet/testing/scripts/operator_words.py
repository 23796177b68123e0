"""Shards, entries and metadata, as golden scripts about operators write and tell them."""

from __future__ import annotations

import re

from motet.core.shardlog.entry import EntryId
from motet.core.streams.cluster_messages import ShardMetadata
from motet.errors import BadScenario
from motet.ids import Epoch, Offset, ShardId, StreamName

ENTRY = re.compile(r"\((\d+),(\d+)\)")


def named_shard(name: str) -> tuple[StreamName, ShardId]:
    """The stream and the number of ``orders.0``."""
    stream, _, number = name.partition(".")
    return StreamName(stream), ShardId(int(number or "0"))


def entry_of(text: str) -> EntryId:
    """An entry as it is written: (epoch,offset)."""
    match = ENTRY.fullmatch(text)
    if match is None:
        raise BadScenario(f"{text!r} is no entry id", hint="write (epoch,offset)")
    return EntryId(Epoch(int(match[1])), Offset(int(match[2])))


def told_metadata(m: ShardMetadata) -> str:
    """Metadata in one line."""
    text = f"{m.shard} epoch={m.epoch} {m.status.value} leader={m.leader or '-'}"
    text += f" ensemble={' '.join(m.ensemble)} rf={m.replication_factor}"
    change = m.reconfiguration
    if change is not None:
        text += f" {change.op.value}:{change.phase.value} {change.old_node or '-'}>{change.new_node or '-'}"
    if m.removed_nodes:
        text += f" removed={' '.join(m.removed_nodes)}"
    return f"{text} new" if m.is_new else text
