"""A workbench for table replicas: a keeper that tells what is watched, and folders with parts."""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.machine import (
    Effect,
    Event,
    Message,
    Note,
    Now,
    Received,
    Send,
    Work,
    WorkDone,
    WorkFailed,
)
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    PartitionsDropped,
    PartsListed,
    TableRefused,
)
from motet.core.mergetree.paths import TABLE_NODES, TABLES, WRITERS
from motet.core.mergetree.work import Clear, Detach, Fetch, Forget, Keep, LookAtDisk, Looked
from motet.core.metadata.definitions import DatabaseIdentity, encode_database_identity
from motet.core.metadata.messages import MetadataRequest
from motet.core.metadata.paths import DATABASE, DRAINS, NODES, ROOT, SETTINGS
from motet.core.render import render
from motet.ids import Address, PartId, SessionId
from motet.testing.bench_network import InFlight, Line
from motet.testing.scripts.operator_bench import OperatorBench
from motet.testing.scripts.operator_puppets import PuppetKeeper

INCARNATION = "a1b2"


class WatchedKeeper(PuppetKeeper):
    """A keeper that tells sessions what they watch."""

    roots = (ROOT, DRAINS, NODES, SETTINGS, TABLES, TABLE_NODES, WRITERS)

    def __init__(self) -> None:
        super().__init__()
        self.put(DATABASE, encode_database_identity(DatabaseIdentity(INCARNATION)))
        #: whose session it is
        self.sessions: dict[SessionId, Address] = {}

    def step(self, event: Event) -> list[Effect]:
        if not isinstance(event, Received) or not isinstance(event.message, MetadataRequest):
            return []
        answer = self._answer(event.message)
        return [Send(event.sender, answer), *self.news()]

    def news(self) -> list[Send]:
        """What sessions are to be told."""
        told = self.tree.take_news()
        return [Send(self.sessions[s], message) for s, message in told if s in self.sessions]

    def clone(self) -> Self:
        twin = super().clone()
        twin.sessions = dict(self.sessions)
        return twin


class PartFolder(msgspec.Struct):
    """The bytes of one node's parts: the value says whether they are what was written."""

    stored: dict[PartId, tuple[PartHeader, bool]] = {}
    arrived: dict[PartId, PartHeader] = {}
    detached: dict[PartId, PartHeader] = {}
    #: of them those that are damaged
    rotten: dict[PartId, PartHeader] = {}


class MergeTreeBench(OperatorBench):
    """Table replicas, their folders, and a keeper."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: dict[Address, PartFolder] = {}

    def work(self, name: Address, work: Work, now: Now) -> Event:
        """Do what a replica wants done with bytes."""
        why, result = self._done(name, self.folders[name], work.task)
        return WorkDone(now, work.id, result) if why is None else WorkFailed(now, work.id, why)

    def _done(
        self, name: Address, folder: PartFolder, task: Message
    ) -> tuple[str | None, Message | None]:
        match task:
            case LookAtDisk():
                stored = tuple(header for header, is_whole in folder.stored.values() if is_whole)
                broken = tuple(part for part, each in folder.stored.items() if not each[1])
                beside = (*folder.arrived.values(), *folder.detached.values())
                return None, Looked(stored, beside, broken=broken)
            case Keep(part=part):
                if folder.stored.get(part.id, (part, False))[1]:
                    return None, None
                if self.nodes[name].disk.full:
                    return "disk full", None
                aside = folder.arrived.pop(part.id, None) or folder.detached.pop(part.id, None)
                if aside is None or aside.hash != part.hash:
                    return "no such bytes have arrived", None
                folder.stored[part.id] = part, True
            case Fetch(part=part, source=source):
                why = self._fetch(name, Address(source), part)
                if why is not None:
                    return why, None
                folder.stored[part.id] = part, True
            case Forget(part=part_id):
                folder.stored.pop(part_id, None)
            case Detach(part=part_id):
                kept = folder.stored.pop(part_id, None)
                if kept is not None:
                    (folder.detached if kept[1] else folder.rotten)[part_id] = kept[0]
            case Clear():
                folder.stored.clear()
                folder.arrived.clear()
                folder.detached.clear()
        return None, None

    def _fetch(self, name: Address, source: Address, part: PartHeader) -> str | None:
        if self.nodes[source].machine is None or (source, name) in self.network.cut_links:
            return f"{source} does not answer"
        found = self.folders[source].stored.get(part.id)
        if found is None:
            return f"{source} does not have it"
        return None if found[1] and found[0].hash == part.hash else f"{source} sent other bytes"

    def _deliver(self, each: InFlight) -> list[Line]:
        node = self.nodes.get(each.send.to)
        if node is None:
            self.received.setdefault(each.send.to, []).append(each.send.message)
            return [Line("send", f"{each.send.to} <- {told_answer(each.send.message)}")]
        return super()._deliver(each)

    def _noted(self, name: Address, note: Note) -> list[Line]:
        if note.what in self.muted:
            return []
        detail = note.detail.partition(" ")[2]
        told = note.what.removeprefix("table_").replace("_", " ")
        return [Line("note", f"{name} {told}{': ' if detail else ''}{detail}")]


def told_answer(message: Message) -> str:
    """What a client is told."""
    match message:
        case BlockInserted(name=name, version=version, is_duplicate=is_duplicate):
            return f"inserted {name} at {version}{', was there' if is_duplicate else ''}"
        case PartitionsDropped(version=version):
            return f"dropped at {version}"
        case PartsListed(parts=parts, more=more):
            listed = " ".join(f"{each.header.id}={each.name}" for each in parts) or "no rows"
            return f"{listed}, and more" if more else listed
        case TableRefused(code=code, what=what, advice=advice):
            return f"{code} {what}; {advice}"
    return render(message)
