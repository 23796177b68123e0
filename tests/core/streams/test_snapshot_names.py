"""Snapshots call their fields what they always did, so that files made by older versions open."""

from __future__ import annotations

import msgspec

from motet.core.onelog.index import Index, StreamState
from motet.core.streams.latest import LatestChanges
from motet.core.streams.orders import FeedRules
from motet.core.streams.shard import ShardState
from motet.core.streams.transactions import TransactionState


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_renamed_fields_keep_their_names_in_snapshots() -> None:
    assert {
        "milestone_records",
        "milestone_entries",
        "milestone_clocks",
        "milestone_opens",
        "milestone_step_bytes",
        "bytes_since_milestone",
        "born",
    } <= names_of(ShardState)
    assert "horizon" in names_of(FeedRules)
    assert "horizon" in names_of(TransactionState)
    assert "carried" in names_of(LatestChanges)
    assert "carried" in names_of(Index)
    assert "born" in names_of(StreamState)
