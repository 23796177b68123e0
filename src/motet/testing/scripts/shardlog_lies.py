"""Commands for golden scripts in which somebody says what is not so, in the name of a node."""

from __future__ import annotations

import re

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.shardlog.messages import AddEntryRequest, AddEntryResponse
from motet.ids import Epoch, Offset
from motet.testing.bench_part import BenchPart
from motet.testing.part import verb
from motet.testing.scripts.shardlog_node import SHARD

_ENTRY = re.compile(r"\((\d+),(\d+)\)")


def _entry(text: str) -> EntryId:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no entry (EPOCH,OFFSET)")
    return EntryId(Epoch(int(found[1])), Offset(int(found[2])))


class Lies(BenchPart):
    """What a leader and a follower never say."""

    @verb
    def forge_push(
        self,
        leader: str,
        node: str,
        previous: str,
        *,
        commit: str = "(0,0)",
        entry: str | None = None,
        first: int = 1,
        round_: int = 1,
        clock: int = 1,
    ) -> list[str]:
        """Push something in the name of a leader, after an entry (EPOCH,OFFSET); its clock in ms."""
        after = _entry(previous)
        time = Clock(clock, 0)
        made = () if entry is None else (Entry(_entry(entry), EntryKind.BARRIER, time, b""),)
        message = AddEntryRequest(
            SHARD, after.epoch, after, made, _entry(commit), Offset(first), round_, time
        )
        return self.bench.receive(node, leader, message)

    @verb
    def forge_answer(
        self, node: str, leader: str, entry: str, *, epoch: int, round_: int = 1, clock: int = 1
    ) -> list[str]:
        """Acknowledge an entry in the name of a follower."""
        message = AddEntryResponse(SHARD, Epoch(epoch), _entry(entry), round_, Clock(clock, 0))
        return self.bench.receive(leader, node, message)
