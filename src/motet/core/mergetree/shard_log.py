"""The log of a shard for people who look at it, as the keeper has it.

It comes page by page, with the quorums that are open at the moment of the first page. Entries that have been
trimmed are left out.
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree.entries import decode_entry, decode_status, parts_of
from motet.core.mergetree.messages import NodeRequest
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.procedure import Procedure, ProcedureService, failure
from motet.core.mergetree.pulling import head_of
from motet.core.mergetree.standing_messages import LoggedEntry, OpenQuorum, ReadShardLog, ShardLogIs
from motet.core.metadata.messages import (
    Children,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadResult,
)
from motet.errors import BadRecord, NoSuchTable
from motet.ids import Address, PartId

entries_max = 64
quorums_max = 64
"""On one page."""


class ShardLogPage(Procedure[ReadShardLog]):
    """A page that is being read."""

    head: int | None = None
    #: whose status is being read with the entries
    open: tuple[PartId, ...] = ()


class ShardLogService(ProcedureService[ShardLogPage]):
    """Answers ``ReadShardLog``."""

    name = "shard_log"
    takes = (ReadShardLog,)

    def begin(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, ReadShardLog)
        paths = ShardPaths(message.table, message.shard)
        self.ask(ShardLogPage(client, message), Get(paths.log), Children(paths.statuses))

    def go_on(self, procedure: ShardLogPage, answer: MetadataAnswer) -> None:
        if not isinstance(answer, ReadDone):
            raise failure(answer)
        if procedure.head is None:
            self._on_head(procedure, answer)
        else:
            self._on_entries(procedure, answer)

    def _on_head(self, page: ShardLogPage, answer: ReadDone) -> None:
        log, statuses = answer.results
        message = page.message
        if not isinstance(log, Found):
            raise NoSuchTable("there is no such shard", hint="look the table up again")
        page.head = head_of(log.stat)
        if isinstance(statuses, Names) and message.first == 0:
            page.open = tuple(map(PartId, statuses.names[:quorums_max]))
        paths = ShardPaths(message.table, message.shard)
        end = min(page.head + 1, message.first + entries_max)
        reads = [Get(paths.entry(number)) for number in range(message.first, end)]
        self.ask(page, *reads, *(Get(paths.status(part)) for part in page.open), Get(paths.log))

    def _on_entries(self, page: ShardLogPage, answer: ReadDone) -> None:
        assert page.head is not None, "the head was read before the entries"
        message = page.message
        *found, _ = answer.results
        count = len(found) - len(page.open)
        entries = [
            _entry(message.first + place, each)
            for place, each in enumerate(found[:count])
            if isinstance(each, Found)
        ]
        quorums = [
            quorum
            for part, each in zip(page.open, found[count:], strict=True)
            if (quorum := _quorum(part, each)) is not None
        ]
        next_number = message.first + count
        told = ShardLogIs(
            *(message.request, tuple(entries), tuple(quorums)),
            next_number=next_number,
            more=next_number <= page.head,
        )
        self.reply(page, told)


def _entry(number: int, found: Found) -> LoggedEntry:
    """Junk is told, too: as an entry of no type."""
    try:
        entry = decode_entry(found.data)
    except BadRecord as error:
        return LoggedEntry(number, "bad", (), error.what, found.stat.czxid, found.stat.ctime_ms)
    kind = entry.__struct_config__.tag
    assert isinstance(kind, str), "entries are told apart by their tags"
    said = msgspec.to_builtins(entry)
    for name in ("type", "part", "parts"):
        said.pop(name, None)
    detail = msgspec.json.encode(said).decode()
    parts = tuple(part.id for part in parts_of(entry))
    return LoggedEntry(number, kind, parts, detail, found.stat.czxid, found.stat.ctime_ms)


def _quorum(part: PartId, found: ReadResult) -> OpenQuorum | None:
    if not isinstance(found, Found):
        return None  # it has ended since
    try:
        status = decode_status(found.data)
    except BadRecord:
        return None
    return OpenQuorum(part, status.wanted, status.members, found.stat.ctime_ms)
